#include "engine/base/shallow_json.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway {
namespace {

std::string Nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(ShallowJson, IsNoneBeyondTheDepth) {
  EXPECT_EQ(ParseShallowJson(R"({"a": [1, {"b": null}]})", 4)["a"][0], 1);
  EXPECT_TRUE(ParseShallowJson(Nested(8), 8).is_array());
  EXPECT_TRUE(ParseShallowJson(Nested(9), 8).is_discarded());
  EXPECT_TRUE(ParseShallowJson("{\"a\": " + Nested(8) + ", \"b\": 1}", 8).is_discarded());
  EXPECT_TRUE(ParseShallowJson(Nested(64)).is_array());
  EXPECT_TRUE(ParseShallowJson(Nested(200000)).is_discarded());
}

TEST(ShallowJson, IsNoneWhereItIsBroken) {
  for (const char* text : {"", "[1", "nul", "[1] 2", "\"\xff\"", "1e999"}) {
    const nlohmann::json json = ParseShallowJson(text);
    EXPECT_TRUE(json.is_discarded()) << text;
    EXPECT_FALSE(json.is_object() || json.is_array() || json.is_null()) << text;
  }
}

TEST(ShallowJson, KeepsTheOrderOfWhoAsksForIt) {
  EXPECT_EQ(ParseShallowJson<nlohmann::ordered_json>(R"({"b":1,"a":2})").dump(),
            R"({"b":1,"a":2})");
}

}  // namespace
}  // namespace spillway
