#include "engine/data/jsonl.h"

#include <set>

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

TEST(Jsonl, TakesConversations) {
  const auto record = ParseJsonlRecord(
      R"({"id": 1, "messages": [{"content": "a", "role": "user", "name": null},
          {"role": "assistant", "content": "b"}]})",
      "f", 1);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->chat.messages.dump(),
            R"([{"content":"a","role":"user"},{"role":"assistant","content":"b"}])");
}

TEST(Jsonl, TakesPartsOfText) {
  const auto record = ParseJsonlRecord(
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"},
          {"type": "text", "text": "b"}]}, {"role": "assistant", "content": []}]})",
      "f", 1);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->chat.messages.dump(),
            R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
            R"({"role":"assistant","content":[]}])");
}

TEST(Jsonl, TakesPromptsAndCompletionsThatAreMessages) {
  const auto record = ParseJsonlRecord(
      R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                     {"role": "user", "content": "c"}],
          "completion": [{"role": "assistant", "content": "d"}]})",
      "f", 1);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_FALSE(record->has_prompt);
  EXPECT_EQ(record->chat.messages.size(), 4u);
  EXPECT_EQ(record->chat.unlearnt, (std::set<size_t>{1}));
}

// All that a row says of tools and of its messages is the template's, in its order.
TEST(Jsonl, TakesWhatTemplatesRead) {
  const auto record = ParseJsonlRecord(
      R"({"tools": "[{\"z\": 1, \"a\": 2}]", "documents": [], "chat_template_kwargs": {"k": false},
          "system": "Be brief.", "id": [3], "messages": [
          {"role": "user", "name": "x", "content": "a", "tool_calls": null, "images": []},
          {"role": "assistant", "content": null, "reasoning_content": "hm", "train": false,
           "tool_calls": [{"function": {"name": "f", "arguments": {"z": 1, "a": 2.0}}}]},
          {"role": "tool", "tool_call_id": "1", "content": "b"},
          {"role": "assistant", "tool_calls": [{"name": "g"}], "weight": 1},
          {"role": "assistant", "content": "c", "weight": 0}]})",
      "f", 1);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(
      record->chat.messages.dump(),
      R"([{"role":"system","content":"Be brief."},)"
      R"({"role":"user","name":"x","content":"a","images":[]},)"
      R"({"role":"assistant","content":null,"reasoning_content":"hm",)"
      R"("tool_calls":[{"function":{"name":"f","arguments":{"z":1,"a":2.0}}}]},)"
      R"({"role":"tool","tool_call_id":"1","content":"b"},)"
      R"({"role":"assistant","tool_calls":[{"name":"g"}]},{"role":"assistant","content":"c"}])");
  EXPECT_EQ(record->chat.variables.dump(), R"({"tools":[{"z":1,"a":2}],"k":false})");
  EXPECT_EQ(record->chat.unlearnt, (std::set<size_t>{2, 5}));
}

TEST(Jsonl, LayoutsOfOthersComeWithTheCommandThatMakesOneThatIsRead) {
  const struct {
    const char* line;
    std::vector<std::string> why;
  } cases[] = {
      {R"({"instruction": "a", "input": "", "output": "b"})",
       {"looks like alpaca: `jq -c '", "d.jsonl > d.spillway.jsonl`"}},
      {R"({"instruction": "a", "context": "", "response": "b"})", {"looks like dolly"}},
      {R"({"conversations": [{"from": "human", "value": "a"}]})",
       {"ShareGPT", "gpt: \"assistant\""}},
      {R"({"question": "a", "answer": "b"})", {"questions with answers"}},
      {R"({"content": "a"})", {"{text: .content}"}},
      {R"({"prompt": "a", "response": "b"})",
       {"\"prompt\" but no \"completion\"", "completion: .response"}},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c"})",
       {"preference training such as DPO is not supported", "jq"}},
      {R"({"chosen": [], "rejected": []})", {"preference data (chosen, rejected)"}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.line);
    ExpectError(ParseJsonlRecord(c.line, "d.jsonl", 3).status(), StatusCode::kInvalidArgument,
                c.why);
  }
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
      {"{\"message\": [], \"id\": 1}", "its keys: id, message"},
      {"{\"messages\": [], \"text\": \"a\"}", "which of them is meant"},
      {"{\"messages\": {}}", "\"messages\" is a JSON object, not an array"},
      {"{\"messages\": []}", "no message of \"messages\" is the assistant's"},
      {R"({"messages": [{"role": "user", "content": "a"}]})", "no message of \"messages\" is"},
      {R"({"messages": ["a"]})", "messages[0] is a JSON string, not an object"},
      {R"({"messages": [{"content": "a"}]})", "messages[0] has no \"role\""},
      {R"({"messages": [{"role": "user"}]})", "messages[0] has no \"content\""},
      {R"({"messages": [{"role": "user", "content": ["a"]}]})", "\"content\" is a JSON array"},
      {R"({"messages": [{"role": "user", "content": null}]})", "messages[0]: \"content\" is null"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})",
       "a part of the type \"image\""},
      {R"({"messages": [{"role": "assistant", "content": null, "tool_calls": {}}]})",
       "messages[0]: \"tool_calls\" is a JSON object, not an array"},
      {R"({"messages": [{"from": "human", "value": "a"}]})", "as ShareGPT has them"},
      {R"({"prompt": [{"role": "user", "content": "a"}], "completion": "b"})",
       "\"prompt\" is a JSON array"},
      {R"({"prompt": [{"role": "user", "content": "a"}], "completion": []})",
       "no message of \"completion\" is the assistant's"},
      {R"({"prompt": [{"role": "user"}], "completion": []})", "prompt[0] has no \"content\""},
      {R"({"messages": [{"role": "bot", "content": "a"}]})", "the role \"bot\" is none of system"},
      {R"({"messages": [{"role": "user", "content": "a", "tool_calls": [1]}]})",
       "messages[0]: \"tool_calls\" of what is not the assistant's"},
      {R"({"messages": [{"role": "assistant", "content": "a"}], "tools": {}})",
       "\"tools\" is a JSON object, not an array"},
      {R"({"messages": [{"role": "assistant", "content": "a"}], "tools": "[1"})",
       "unexpected end of input"},
      {R"({"messages": [{"role": "assistant", "content": "a"}], "documents": "{}"})",
       "\"documents\" is a JSON object, not an array"},
      {R"({"messages": [{"role": "assistant", "content": "a"}], "chat_template_kwargs": []})",
       "\"chat_template_kwargs\" is a JSON array, not an object"},
      {R"({"messages": [{"role": "assistant", "content": "a"}], "system": ["b"]})",
       "\"system\" is a JSON array, not a string"},
      {R"({"messages": [{"role": "system", "content": "a"}], "system": "b"})",
       "\"system\" and a first message of the system: which of them is meant"},
      {R"({"messages": [{"role": "user", "content": "a", "images": ["x.png"]}]})",
       "messages[0]: \"images\" is not supported"},
      {R"({"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]})",
       "messages[0]: \"weight\" is 0.5; an answer is learnt (true, 1) or not (false, 0)"},
      {R"({"messages": [{"role": "user", "content": "a", "train": true}]})",
       "messages[0]: \"train\" asks to learn what the assistant does not say"},
      {R"({"messages": [{"role": "assistant", "content": "a", "weight": 0}]})",
       "no message of \"messages\" is the assistant's and to be learnt"},
      {R"({"messages": [{"role": null, "content": "a"}]})", "\"role\" is a JSON null"},
      {"{}", "its keys: none"},
      {"{\"text\": \"a\", \"text\": \"b\"}", "the key \"text\" appears twice"},
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

// The prompts of a file of this name and content, each with its line; conversations as JSON.
absl::StatusOr<std::vector<std::string>> PromptsOf(const std::string& name,
                                                   const std::string& content,
                                                   const std::string& key = "") {
  const std::string path = testing::TempDir() + name;
  WriteFile(path, content);
  const auto prompts = ReadPrompts(path, key, "completion");
  if (!prompts.ok()) return prompts.status();
  std::vector<std::string> lines;
  for (const PromptRecord& record : *prompts) {
    lines.push_back(std::to_string(record.line) + " " +
                    (record.is_chat() ? record.chat.messages.dump() : record.prompt) +
                    (record.target ? " -> " + *record.target : ""));
  }
  return lines;
}

TEST(Prompts, AreLinesOfATextOrKeysOfObjects) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(*PromptsOf("p.txt",
                       "\xef\xbb\xbf"
                       "a b\r\n c\nlast"),
            (Lines{"1 a b", "2  c", "3 last"}));
  EXPECT_EQ(
      *PromptsOf("p.jsonl", "{\"prompt\": \"a\\nb\", \"completion\": 3}\n\n{\"prompt\":\"c\"}\n"),
      (Lines{"1 a\nb", "3 c"}));
  EXPECT_EQ(*PromptsOf("p.jsonl", R"({"prompt": "a", "completion": "b"})"), (Lines{"1 a -> b"}));
  EXPECT_EQ(*PromptsOf("p.jsonl", R"({"q": "a", "prompt": "b", "messages": []})", "q"),
            (Lines{"1 a"}));
  const std::string user = R"({"role":"user","content":"a"})";
  EXPECT_EQ(*PromptsOf("p.jsonl", R"({"system": "s", "messages": [)" + user + "]}"),
            (Lines{R"(1 [{"role":"system","content":"s"},)" + user + "]"}));
  EXPECT_EQ(*PromptsOf("p.jsonl", R"({"prompt": [)" + user + "]}"), (Lines{"1 [" + user + "]"}));
  EXPECT_EQ(*PromptsOf("p.jsonl",
                       R"({"messages": [)" + user + R"(, {"role": "assistant", "content": "b"}]})"),
            (Lines{"1 [" + user + "]"}));
}

TEST(Prompts, WhatIsWrongIsNamedWithItsLine) {
  const struct {
    const char* name;
    const char* content;
    const char* why;
  } cases[] = {
      {"p.txt", "", "has no prompts"},
      {"p.jsonl", "\n \n", "has no prompts"},
      {"p.txt", "a\n \nb", "p.txt:2: the prompt is empty"},
      {"p.jsonl", "{\"prompt\": \"a\"}\n{\"prompt\": \"\"}", "p.jsonl:2: the prompt is empty"},
      {"p.jsonl", "{\"text\": \"a\"}", "p.jsonl:1: it has no \"prompt\" and no \"messages\""},
      {"p.jsonl", "{\"prompt\": [1]}", "p.jsonl:1: prompt[0] is a JSON number, not an object"},
      {"p.jsonl", "{\"prompt\": {}}", "p.jsonl:1: \"prompt\" is a JSON object, not a string"},
      {"p.jsonl", "{\"prompt\": \"a\", \"messages\": []}", "which of them is meant"},
      {"p.jsonl", "{\"messages\": []}", "nothing to answer"},
      {"p.jsonl", "{\"messages\": [{\"role\": \"bot\", \"content\": \"a\"}]}", "the role \"bot\""},
      {"p.jsonl", "[1]", "p.jsonl:1: a line is an object like"},
      {"p.jsonl", "{", "p.jsonl:1: "},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.content);
    ExpectError(PromptsOf(c.name, c.content).status(), StatusCode::kInvalidArgument, {c.why});
  }
  ExpectError(PromptsOf("p.txt", "a", "q").status(), StatusCode::kInvalidArgument,
              {"--prompt-key"});
}

// What a reader makes of these pieces: the texts, and how it ended.
struct Taken {
  std::vector<std::string> texts;
  absl::Status status;
};

Taken ReadPieces(const std::vector<std::string>& pieces) {
  Taken taken;
  LineReader reader("f.jsonl", TakeRecords("f.jsonl", [&](const JsonlRecord& record) {
                      taken.texts.push_back(record.text);
                      return record.text == "stop" ? absl::AbortedError("enough")
                                                   : absl::OkStatus();
                    }));
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

// Two million numbers would take a hundred times what they are written in.
TEST(Jsonl, WhatIsNotReadTakesNoMemory) {
  std::string numbers = "[0";
  for (int i = 0; i < 2'000'000; ++i) numbers += ",0";
  numbers += "]";
  const auto record =
      ParseJsonlRecord("{\"scores\": " + numbers + ", \"text\": \"a\", \"o\": {\"k\": " + numbers +
                           ", \"text\": 1}, \"s\": \"" + std::string(1 << 20, 'b') + "\"}",
                       "f", 1);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->text, "a");
  ExpectError(ParseJsonlRecord("{\"text\": " + numbers + "}", "f", 3).status(),
              StatusCode::kInvalidArgument, {"f:3: ", "more than 64 MiB of memory"});
  ExpectError(ParseJsonlRecord("{\"id\": 1, \"scores\": [1, [2]], \"id\": 2}", "f", 3).status(),
              StatusCode::kInvalidArgument, {"f:3: ", "\"id\" appears twice"});
  ExpectError(ParseJsonlRecord("{\"scores\": [1, {\"a\": 2]}", "f", 3).status(),
              StatusCode::kInvalidArgument, {"f:3: ", "syntax error"});
  ExpectError(
      ParseJsonlRecord("{\"scores\": " + std::string(70, '[') + std::string(70, ']') + "}", "f", 3)
          .status(),
      StatusCode::kInvalidArgument, {"f:3: ", "more than 64 levels"});
}

TEST(Jsonl, AConversationHasABound) {
  const std::string begin = R"({"messages": [{"role": "user", "content": ")";
  const std::string end = R"("}, {"role": "assistant", "content": "b"}]})";
  EXPECT_TRUE(ParseJsonlRecord(begin + std::string((4 << 20) - 600, 'a') + end, "f", 1).ok());
  ExpectError(ParseJsonlRecord(begin + std::string(4 << 20, 'a') + end, "f", 1).status(),
              StatusCode::kInvalidArgument, {"f:1: ", "more than 4 MiB", "cut it into several"});
}

TEST(Jsonl, ALineHasABound) {
  std::vector<std::string> pieces = {"{\"text\": \"a\"}\n{\"text\": \""};
  for (int i = 0; i < 33; ++i) pieces.push_back(std::string(1 << 20, 'a'));
  const Taken taken = ReadPieces(pieces);
  ExpectError(taken.status, StatusCode::kInvalidArgument, {"f.jsonl:2: ", "more than 32 MiB"});
  EXPECT_EQ(taken.texts.size(), 1u);
}

}  // namespace
}  // namespace spillway
