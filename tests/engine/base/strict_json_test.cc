#include "engine/base/strict_json.h"

#include <csignal>

#include "engine/base/stop_signal.h"
#include "engine/base/work_count.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

TEST(StrictJson, KnowsTheLineOfEveryKey) {
  const auto document = ParseStrictJson(
      "{\n  \"a\": 1,\n  \"block\": {\n    \"x\": [1,\n 2],\n\n    \"y/z\": {}\n  },\n"
      "  \"list\": [{\"k\": 1},\n {\"k\": 2}]\n}\n",
      "f.json");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->LineOf("/a"), 2);
  EXPECT_EQ(document->LineOf("/block"), 3);
  EXPECT_EQ(document->LineOf("/block/x"), 4);
  EXPECT_EQ(document->LineOf("/block/x/1"), 4) << "of the enclosing key";
  EXPECT_EQ(document->LineOf(JsonPointerTo("/block", "y/z")), 7);
  EXPECT_EQ(document->LineOf("/list/0/k"), 9);
  EXPECT_EQ(document->LineOf("/list/1/k"), 10);
  EXPECT_EQ(document->LineOf("/nowhere"), 1);
  EXPECT_EQ(document->Where("/block"), "f.json:3");
  EXPECT_EQ(document->value["list"][1]["k"], 2);
}

TEST(StrictJson, NamesWhatIsWrongAndWhere) {
  const struct {
    const char* text;
    const char* where;
    const char* why;
  } cases[] = {
      {"{\"a\": 1,\n\"b\": 2,\n\"a\": 3}", "f.json:3", "\"a\" appears twice (first in line 1)"},
      {"{\"o\": {\"a\": 1,\n\"a\": 3}}", "f.json:2", "\"a\" appears twice"},
      {"{\n\"a\": 1,\n}", "f.json:3", "syntax error"},
      {"{\"a\": 1}\n{}", "f.json:2", "syntax error"},
      {"", "f.json:1", "syntax error"},
      {"{\"a\": 1e999}", "f.json:1", "number overflow"},
      {"{\"a\": nan}", "f.json:1", "syntax error"},
      {"{\"a\": \"\xff\"}", "f.json:1", "UTF-8"},
      {"{\"a\": // hi\n 1}", "f.json:1", "syntax error"},
      {"{\n\n\"a\": \"unterminated\n", "f.json:3", "syntax error"},
  };
  for (const auto& c : cases) {
    ExpectError(ParseStrictJson(c.text, "f.json").status(), absl::StatusCode::kInvalidArgument,
                {c.where, c.why});
  }
}

TEST(StrictJson, BoundsDepthAndSize) {
  const std::string deep = std::string(100000, '[');
  ExpectError(ParseStrictJson(deep, "f").status(), absl::StatusCode::kInvalidArgument,
              {"f:1", "more than 64 levels"});
  std::string objects;
  for (int i = 0; i < 100; ++i) objects += "{\"a\":\n";
  ExpectError(ParseStrictJson(objects, "f").status(), absl::StatusCode::kInvalidArgument,
              {"f:65", "more than 64 levels"});
  EXPECT_TRUE(ParseStrictJson(std::string(64, '[') + std::string(64, ']'), "f").ok());
  ExpectError(ParseStrictJson("[1, 2, 3]", "f", {.max_bytes = 4}).status(),
              absl::StatusCode::kInvalidArgument, {"9 bytes", "at most 4"});
}

TEST(StrictJson, BoundsMemory) {
  // Some 60 bytes a number of two.
  std::string text = "{\n\"a\": [0";
  for (int i = 0; i < 100'000; ++i) text += ",0";
  text += "]}";
  EXPECT_TRUE(ParseStrictJson(text, "f").ok());
  ExpectError(ParseStrictJson(text, "f", {.max_memory_bytes = 4 << 20}).status(),
              absl::StatusCode::kInvalidArgument, {"f:2: ", "more than 4 MiB of memory"});
}

TEST(StrictJson, KeepsTheKeysItIsTold) {
  const auto document = ParseStrictJson(
      R"({"a": {"b": [1, {"c": 2}]}, "d": {"a": 3}, "e": "text", "f": [[]], "g": 4})", "f",
      {.keep = [](absl::string_view key) { return key == "d" || key == "g"; }});
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->value.dump(), R"({"a":null,"d":{"a":3},"e":null,"f":null,"g":4})");
}

TEST(StrictJson, TakesCommentsAndTrailingCommasWhereAsked) {
  const auto document =
      ParseStrictJson("{ // a\n /* b\n */ \"a\": 1, # c\n}", "f", {.relaxed = true});
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->value.dump(), "{\"a\":1}");
  EXPECT_EQ(document->LineOf("/a"), 3);
  ExpectError(ParseStrictJson("{\n\"a\": 1,,\n}", "f", {.relaxed = true}).status(),
              absl::StatusCode::kInvalidArgument, {"f:2", "syntax error"});
}

// The key of 30 KiB would stand in the pointers of 2,000 others: 60 MB for a file of 50 kB.
TEST(StrictJson, LinesTakeNoMoreRoomThanSomeTimesTheText) {
  std::string text = "{\n\"" + std::string(30000, 'k') + "\": {";
  for (int i = 0; i < 2000; ++i) text += (i == 0 ? "\"" : ",\n\"") + std::to_string(i) + "\":0";
  text += "}}";
  const auto document = ParseStrictJson(text, "f");
  ASSERT_TRUE(document.ok()) << document.status();
  size_t pointer_bytes = 0;
  for (const auto& [pointer, line] : document->lines) pointer_bytes += pointer.size();
  EXPECT_LT(pointer_bytes, 20 * text.size());
  EXPECT_EQ(document->value.begin()->size(), 2000u) << "the values are all there";
  const std::string parent = JsonPointerTo("", std::string(30000, 'k'));
  EXPECT_EQ(document->LineOf(JsonPointerTo(parent, "1")), 3);
  EXPECT_EQ(document->LineOf(JsonPointerTo(parent, "1999")), 2) << "of the enclosing key";
}

// Keys of 16 kB nested sixty deep have a pointer of 960 kB, which each of 20,000 values below would
// copy: 19 GB for a file of 1 MB.
TEST(StrictJson, WorkIsBoundedByTheText) {
  const std::string key(16000, 'k');
  for (const std::string& value : {std::string("{}"), std::string("[0]"), std::string("0")}) {
    for (const bool list : {false, true}) {
      std::string text;
      for (int level = 0; level < 60; ++level) text += "{\"" + key + "\":";
      text += list ? "[" : "{";
      for (int i = 0; i < 20'000; ++i) {
        if (i > 0) text += ',';
        if (!list) text += '"' + std::to_string(i) + "\":";
        text += value;
      }
      text += list ? "]" : "}";
      for (int level = 0; level < 60; ++level) text += "}";
      const uint64_t began = WorkCount::now();
      const auto document = ParseStrictJson(text, "f");
      ASSERT_TRUE(document.ok()) << document.status();
      EXPECT_LE(WorkCount::now() - began, 16 * text.size()) << value << list;
    }
  }
}

TEST(StrictJson, ASignalEndsWhatTakesLong) {
  const StopSignal handled;
  StopSignal::Receive(SIGTERM);
  std::string text = "[";
  for (int i = 0; i < 10'000; ++i) text += "0,";
  text += "0]";
  EXPECT_TRUE(ParseStrictJson(text, "f").ok());
  StopPatience::seconds = 0;
  EXPECT_EQ(ParseStrictJson(text, "f").status(), absl::CancelledError("stopped by SIGTERM"));
  EXPECT_TRUE(ParseStrictJson("[0]", "f").ok());  // it is over before anybody looks
  StopPatience::seconds = 0.7;
}

TEST(StrictJson, RefusesAKeyOfAbsurdLength) {
  const std::string longest(64 << 10, 'k');
  EXPECT_TRUE(ParseStrictJson("{\"" + longest + "\":1}", "f").ok());
  ExpectError(ParseStrictJson("{\n\"" + longest + "k\":1}", "f").status(),
              absl::StatusCode::kInvalidArgument, {"f:2", "a key of 65537 bytes"});
}

TEST(StrictJson, ReadsFilesThroughLinks) {
  const ScratchDirectory scratch;
  WriteFile(scratch / "real.json", "{\"a\": [true, null, -1.5]}");
  ASSERT_EQ(symlink("real.json", (scratch / "link.json").c_str()), 0);
  const auto document = ReadStrictJson(scratch / "link.json");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->value.dump(), "{\"a\":[true,null,-1.5]}");
  EXPECT_EQ(ReadStrictJson(scratch / "none.json").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace spillway
