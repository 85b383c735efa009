#include "engine/config/deepspeed_values.h"

#include "gtest/gtest.h"

namespace spillway {
namespace {

using nlohmann::json;

TEST(DeepSpeedValues, IntegralFloatsAreIntegers) {
  EXPECT_EQ(AsInteger(json::parse("5e8")), 500000000);
  EXPECT_EQ(AsInteger(json::parse("2.0")), 2);
  EXPECT_EQ(AsInteger(json::parse("-3")), -3);
  EXPECT_EQ(AsInteger(json::parse("9223372036854775807")), INT64_MAX);
  for (const char* bad : {"0.5", "1e300", "18446744073709551615", "true", "\"8\"", "null", "[1]"}) {
    EXPECT_FALSE(AsInteger(json::parse(bad)).has_value()) << bad;
  }
}

TEST(DeepSpeedValues, TypedBlocksTakeNumbersInStrings) {
  EXPECT_EQ(AsInteger("16", true), 16);
  EXPECT_EQ(AsInteger("1e3", true), 1000);
  EXPECT_EQ(AsNumber("0.5", true), 0.5);
  EXPECT_FALSE(AsNumber("0.5").has_value());
  for (const char* bad : {"", "x", "inf", "nan", "1 2"}) {
    EXPECT_FALSE(AsNumber(bad, true).has_value()) << bad;
  }
}

TEST(DeepSpeedValues, BooleansComeInManySpellings) {
  for (const char* yes :
       {"true", "\"true\"", "\"True\"", "\"TRUE\"", "\"yes\"", "\"on\"", "1", "1.0", "\"1\""}) {
    EXPECT_EQ(AsBoolean(json::parse(yes)), true) << yes;
  }
  for (const char* no : {"false", "\"False\"", "\"no\"", "\"off\"", "0", "\"0\""}) {
    EXPECT_EQ(AsBoolean(json::parse(no)), false) << no;
  }
  for (const char* neither : {"2", "\"\"", "\"auto\"", "\"maybe\"", "null", "[]", "{}"}) {
    EXPECT_FALSE(AsBoolean(json::parse(neither)).has_value()) << neither;
  }
}

}  // namespace
}  // namespace spillway
