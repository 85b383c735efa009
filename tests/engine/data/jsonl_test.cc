#include "engine/data/jsonl.h"

#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;

TEST(Jsonl, TakesTextsAndPromptsWithCompletions) {
  const auto text = ParseJsonlRecord("{\"id\": 7, \"text\": \"a\\n\\ud83d\\ude00\"}\r", "f", 1);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_FALSE(text->has_prompt);
  EXPECT_EQ(text->text, "a\n\U0001F600");
  const auto pair = ParseJsonlRecord("{\"completion\": \"b\", \"prompt\": \"a\"}", "f", 1);
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_TRUE(pair->has_prompt);
  EXPECT_EQ(pair->prompt, "a");
  EXPECT_EQ(pair->text, "b");
}

TEST(Jsonl, WhatIsWrongIsNamedWithItsLine) {
  const struct {
    const char* line;
    const char* why;
  } cases[] = {
      {"{\"text\": \"a\"", "unexpected end of input"},
      {"{'text': 'a'}", "data.jsonl:17"},
      {"{\"text\": \"a\"} {}", "data.jsonl:17"},
      {"\"text\"", "this is a JSON string"},
      {"[{\"text\": \"a\"}]", "this is a JSON array"},
      {"{\"text\": 3}", "\"text\" is a JSON number, not a string"},
      {"{\"text\": null}", "\"text\" is a JSON null, not a string"},
      {"{\"prompt\": [\"a\"], \"completion\": \"b\"}", "\"prompt\" is a JSON array"},
      {"{\"prompt\": \"a\"}", "\"prompt\" but no \"completion\""},
      {"{\"completion\": \"a\"}", "\"completion\" but no \"prompt\""},
      {"{\"text\": \"a\", \"prompt\": \"b\"}", "which of them is meant"},
      {"{\"messages\": [], \"id\": 1}", "its keys: id, messages"},
      {"{}", "its keys: none"},
      {"{\"text\": \"a\", \"text\": \"b\"}", "appears twice (first in line 17)"},
      {"{\"text\": \"\\ud83d\"}", "surrogate"},
      {"{\"text\": \"\\ude00\"}", "surrogate"},
      {"{\"text\": \"\xff\"}", "UTF-8"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.line);
    ExpectError(ParseJsonlRecord(c.line, "data.jsonl", 17).status(), StatusCode::kInvalidArgument,
                {"data.jsonl:17: ", c.why});
  }
}

// What a reader makes of these pieces: the texts, and how it ended.
struct Taken {
  std::vector<std::string> texts;
  absl::Status status;
};

Taken ReadPieces(const std::vector<std::string>& pieces) {
  Taken taken;
  JsonlReader reader("f.jsonl", [&](const JsonlRecord& record) {
    taken.texts.push_back(record.text);
    return record.text == "stop" ? absl::AbortedError("enough") : absl::OkStatus();
  });
  for (const std::string& piece : pieces) {
    taken.status = reader.Next(piece);
    if (!taken.status.ok()) return taken;
  }
  taken.status = reader.Finish();
  return taken;
}

TEST(Jsonl, PiecesMayEndAnywhere) {
  const std::string file =
      "\xef\xbb\xbf{\"text\": \"a\"}\r\n\n  \t\r\n{\"text\": \"b\"}\n{\"text\": \"\"}";
  for (size_t cut = 0; cut <= file.size(); ++cut) {
    const Taken taken = ReadPieces({file.substr(0, cut), file.substr(cut)});
    ASSERT_TRUE(taken.status.ok()) << taken.status;
    ASSERT_EQ(taken.texts, (std::vector<std::string>{"a", "b", ""})) << cut;
  }
}

TEST(Jsonl, LinesAreCountedWithTheEmptyOnes) {
  ExpectError(ReadPieces({"{\"text\": \"a\"}\n\n", "\nx\n"}).status, StatusCode::kInvalidArgument,
              {"f.jsonl:4: "});
  const Taken stopped = ReadPieces({"{\"text\": \"a\"}\n{\"text\": \"stop\"}\n{\"text\": \"b\"}"});
  ExpectError(stopped.status, StatusCode::kAborted, {"f.jsonl:2: enough"});
  EXPECT_EQ(stopped.texts.size(), 2u);
}

TEST(Jsonl, ALineHasABound) {
  std::vector<std::string> pieces = {"{\"text\": \"a\"}\n{\"text\": \""};
  for (int i = 0; i < 65; ++i) pieces.push_back(std::string(1 << 20, 'a'));
  const Taken taken = ReadPieces(pieces);
  ExpectError(taken.status, StatusCode::kInvalidArgument, {"f.jsonl:2: ", "more than 64 MiB"});
  EXPECT_EQ(taken.texts.size(), 1u);
}

}  // namespace
}  // namespace spillway
