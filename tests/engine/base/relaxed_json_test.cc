#include "engine/base/relaxed_json.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace spillway {
namespace {

using nlohmann::json;

json Parsed(const std::string& text) {
  return json::parse(StrictJsonFromRelaxed(text), nullptr, /*allow_exceptions=*/false);
}

// Each pair: what hjson 3.1 (DeepSpeed's reader) makes of the left is the right.
TEST(RelaxedJson, MeansWhatHjsonTakesItToMean) {
  const struct {
    const char* relaxed;
    const char* strict;
  } cases[] = {
      {"{\"a\":1,}", R"({"a":1})"},
      {"{\"a\":[1,2,],}", R"({"a":[1,2]})"},
      {"{\"a\":1 # x\n}", R"({"a":1})"},
      {"{\"a\":1 // x\n \"b\":2}", R"({"a":1,"b":2})"},
      {"{\"a\": 1 /* x */, \"b\":2}", R"({"a":1,"b":2})"},
      {"# first\n{\"a\": /* x\n y */ 1}\n// last", R"({"a":1})"},
      {"{a:1}", R"({"a":1})"},
      {"{\"b\": [1\n2]}", R"({"b":[1,2]})"},
      {"{\"b\": {}\n\"c\": []\n\"d\": true\n\"e\": \"x\"\n}",
       R"({"b":{},"c":[],"d":true,"e":"x"})"},
      {"{'a':'x'}", R"({"a":"x"})"},
      {"{'a':'it\\'s \"x\"'}", R"({"a":"it's \"x\""})"},
      {"{\"a\":\"x\" # y\n}", R"({"a":"x"})"},
      {"{\"a\": 1e5,}", R"({"a":1e5})"},
      {"{\"a\": -1.5e-3, // x\n}", R"({"a":-0.0015})"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Parsed(c.relaxed), json::parse(c.strict)) << c.relaxed;
  }
}

TEST(RelaxedJson, TakesPythonsLiterals) {
  EXPECT_EQ(Parsed("{'a': True, 'b': [False, None]}"),
            json::parse(R"({"a":true,"b":[false,null]})"));
  EXPECT_EQ(Parsed("{True: \"True\"}"), json::parse(R"({"True":"True"})"));
}

TEST(RelaxedJson, LeavesErrorsToTheParser) {
  for (const char* text :
       {"{\"a\":1,,}", "{,\"a\":1}", "{\"a\":,}", "{\"a\": 1 \"b\":2}", "[1 2]", "{\"a\":1}x",
        "{\"a\": .5}", "{\"a\": 01}", "{\"a\": 0x10}", "{\"a\": NaN}", "{\"a\": \"x\ny\"}",
        "{\"a\": 1; }", "{\"a\": yes}", "{\"a\": \"x", "{\"a\": 'x", "{\"a\": 1 /* x", ",", ""}) {
    EXPECT_TRUE(Parsed(text).is_discarded()) << text;
  }
}

TEST(RelaxedJson, StrictJsonIsUntouched) {
  for (const char* text :
       {R"({"a": "# // /* ,] \" ' \\", "b": [1, {"c": null}], "d-e": "\u00e9"})", "[]", "{}",
        "{\n  \"path\": \"http://x/#y\"\n}\n", "\"it's\"", "[-1.5E+3,\ttrue]"}) {
    EXPECT_EQ(StrictJsonFromRelaxed(text), text);
  }
}

TEST(RelaxedJson, KeepsLineEnds) {
  const std::string text = "{ # 1\n/* 2\n3 */ \"a\": 1\n \"b\": 2,\n}\n";
  const std::string strict = StrictJsonFromRelaxed(text);
  EXPECT_EQ(std::count(strict.begin(), strict.end(), '\n'),
            std::count(text.begin(), text.end(), '\n'));
  EXPECT_LT(strict.find("\"a\""), strict.find(",\n \"b\""));
}

}  // namespace
}  // namespace spillway
