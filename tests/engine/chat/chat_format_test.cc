#include "engine/chat/chat_format.h"

#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;

std::string GoldenChat(const std::string& name) {
  return ReadFile(std::string(SPILLWAY_SOURCE_DIR) + "/tests/golden/" + name);
}

// conversation() of tests/golden/make_chat.py.
const absl::CivilSecond kChatDay(2026, 2, 3, 4, 5, 6);

absl::StatusOr<JinjaText> TextOfMessages(const ChatFormat& format, const JinjaValue& messages,
                                         bool prompt) {
  return format.RenderText({messages}, prompt, kChatDay);
}

class ConversationMaker {
 public:
  ConversationMaker() {
    const auto snippets = nlohmann::json::parse(GoldenChat("tokenizers/snippets.json"));
    words_ = snippets["words"].get<std::vector<std::string>>();
    fragments_ = snippets["fragments"].get<std::vector<std::string>>();
  }

  JinjaValue MessagesOf(uint64_t number, bool system, bool thinking) {
    state_ = number + 1;
    JinjaValue messages = JinjaValue::array();
    if (Below(3) == 0 && system) messages.push_back({{"role", "system"}, {"content", Content()}});
    for (size_t turns = 1 + Below(4); turns > 0; --turns) {
      messages.push_back({{"role", "user"}, {"content", Content()}});
      std::string thought;
      if (Below(3) == 0 && thinking) thought = "<think>\n" + Content() + "\n</think>\n\n";
      messages.push_back({{"role", "assistant"}, {"content", thought + Content()}});
    }
    return messages;
  }

 private:
  size_t Below(size_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % n;
  }
  std::string Content() {
    std::string text;
    for (size_t pieces = Below(9); pieces > 0; --pieces) {
      text += Below(100) < 60 ? words_[Below(words_.size())] + " "
                              : fragments_[Below(fragments_.size())];
    }
    return text;
  }

  std::vector<std::string> words_, fragments_;
  uint64_t state_ = 0;
};

ChatFormat FormatOf(const std::string& name) {
  auto format = ChatFormat::Parse(
      GoldenChat("chat/" + name + ".jinja"), name,
      {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"date_string", "26 Jul 2024"}});
  EXPECT_TRUE(format.ok()) << format.status();
  return *std::move(format);
}

TEST(ChatFormat, EqualsTransformers) {
  const auto expected = nlohmann::json::parse(GoldenChat("chat/expected.json"))["hashes"];
  EXPECT_GE(expected.size(), 13u);
  constexpr size_t kBlock = 50;
  ConversationMaker maker;
  for (const auto& [name, hashes] : expected.items()) {
    const ChatFormat format = FormatOf(name);
    const bool system = name != "mistral" && name != "gemma";
    for (size_t block = 0; block < hashes.size(); block += 4) {
      uint64_t hash = 0xcbf29ce484222325u;
      for (size_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
        const auto text =
            TextOfMessages(format, maker.MessagesOf(i, system, name == "qwen3"), i % 2 == 1);
        ASSERT_TRUE(text.ok()) << text.status();
        const std::string separated = (i % kBlock == 0 ? "" : std::string(1, '\0')) + text->text;
        for (const char c : separated)
          hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
      }
      ASSERT_EQ(absl::StrFormat("%016x", hash), hashes[block]) << name << " block " << block;
    }
  }
}

std::vector<std::string> Learnt(const ChatFormat& format, const JinjaValue& messages) {
  const auto chat = format.Render({messages}, kChatDay);
  EXPECT_TRUE(chat.ok()) << chat.status();
  std::vector<std::string> parts;
  for (const auto& [begin, end] :
       chat.ok() ? chat->learnt : std::vector<std::pair<size_t, size_t>>()) {
    parts.push_back(chat->text.substr(begin, end - begin));
  }
  return parts;
}

const JinjaValue kTwoTurns = {{{"role", "user"}, {"content", "Hi"}},
                              {{"role", "assistant"}, {"content", "Hello. "}},
                              {{"role", "user"}, {"content", "Bye"}},
                              {{"role", "assistant"}, {"content", "Bye"}}};

TEST(ChatFormat, OnlyWhatTheAssistantSaysIsLearnt) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(Learnt(FormatOf("llama2"), kTwoTurns), (Parts{" Hello. </s>", " Bye </s>"}));
  EXPECT_EQ(Learnt(FormatOf("llama3"), kTwoTurns), (Parts{"Hello.<|eot_id|>", "Bye<|eot_id|>"}));
  EXPECT_EQ(Learnt(FormatOf("mistral"), kTwoTurns), (Parts{"Hello. </s>", "Bye</s>"}));
  EXPECT_EQ(Learnt(FormatOf("chatml"), kTwoTurns),
            (Parts{"Hello. <|im_end|>\n", "Bye<|im_end|>\n"}));
  EXPECT_EQ(Learnt(FormatOf("zephyr"), kTwoTurns), (Parts{"Hello. </s>\n", "Bye</s>\n"}));
  EXPECT_EQ(Learnt(FormatOf("gemma"), kTwoTurns),
            (Parts{"Hello.<end_of_turn>\n", "Bye<end_of_turn>\n"}));
  EXPECT_EQ(Learnt(FormatOf("generation"), kTwoTurns), (Parts{"Hello. </s>", "Bye</s>"}));
  // The first turn is written without a thought, and with an empty one where it is the last.
  EXPECT_EQ(Learnt(FormatOf("qwen3"), kTwoTurns),
            (Parts{"Hello. <|im_end|>\n", "<think>\n\n</think>\n\nBye<|im_end|>\n"}));
}

TEST(ChatFormat, EveryAssistantsTurnIsFound) {
  ConversationMaker maker;
  for (const char* name :
       {"llama2", "llama3.1", "mistral_v3", "qwen2.5", "qwen3", "zephyr", "generation"}) {
    const ChatFormat format = FormatOf(name);
    for (uint64_t i = 0; i < 40; ++i) {
      const JinjaValue messages = maker.MessagesOf(i, false, false);
      const auto chat = format.Render({messages}, kChatDay);
      // A template may test whether there is content.
      if (!chat.ok()) continue;
      EXPECT_EQ(chat->learnt.size(), messages.size() / 2) << name << " " << i;
      size_t last = 0;
      for (const auto& [begin, end] : chat->learnt) {
        EXPECT_TRUE(last <= begin && begin < end && end <= chat->text.size()) << name << " " << i;
        last = end;
      }
    }
  }
}

TEST(ChatFormat, AConversationMayBeginWithTheAssistant) {
  const JinjaValue messages = {{{"role", "assistant"}, {"content", "Hello?"}},
                               {{"role", "user"}, {"content", "Hi"}},
                               {{"role", "assistant"}, {"content", "Bye"}}};
  using Parts = std::vector<std::string>;
  EXPECT_EQ(Learnt(FormatOf("qwen2.5"), messages),
            (Parts{"Hello?<|im_end|>\n", "Bye<|im_end|>\n"}));
  EXPECT_EQ(Learnt(FormatOf("llama3.1"), messages), (Parts{"Hello?<|eot_id|>", "Bye<|eot_id|>"}));
}

absl::Status SourceRefusal(const std::string& source) {
  auto format = ChatFormat::Parse(source, "t.jinja", JinjaValue::object());
  return format.ok() ? format->Render({kTwoTurns}, kChatDay).status() : format.status();
}

TEST(ChatFormat, WhatIsWrongIsNamedWithItsLine) {
  const struct {
    const char* source;
    StatusCode code;
    const char* why;
  } cases[] = {
      {"\n{% if x %}", StatusCode::kInvalidArgument, "t.jinja:2: the end where \"endif\""},
      {"\n\n{{ 'a }}", StatusCode::kInvalidArgument, "t.jinja:3: a string without an end"},
      {"{{ 1 +", StatusCode::kInvalidArgument, "t.jinja:1: "},
      {"{# a", StatusCode::kInvalidArgument, "a comment without an end"},
      {"{{ a b }}", StatusCode::kInvalidArgument, "\"b\" where \"}}\" should stand"},
      {"{% break %}", StatusCode::kInvalidArgument, "outside a loop"},
      {"\n{{ raise_exception('No ' ~ messages[0].role) }}", StatusCode::kInvalidArgument,
       "t.jinja:2: the template raises: No user"},
      {"{{ messages.x.y }}", StatusCode::kInvalidArgument, "is undefined, and has no \"y\""},
      {"{{ 'a' + 1 }}", StatusCode::kInvalidArgument, "a string + a number"},
      {"{{ 1 // 0 }}", StatusCode::kInvalidArgument, "a division by zero"},
      {"{{ range(1000000) }}", StatusCode::kInvalidArgument, "a range of more than"},
      {"{% include 'x' %}", StatusCode::kUnimplemented, "{% include %}"},
      {"{% block x %}{% endblock %}", StatusCode::kUnimplemented, "{% block %}"},
      {"\n{{ strftime_then('%d') }}", StatusCode::kInvalidArgument,
       "t.jinja:2: there is no function strftime_then"},
      {"{{ strftime_now('%f') }}", StatusCode::kUnimplemented, "strftime_now with such a format"},
      {"{{ messages | groupby('role') }}", StatusCode::kUnimplemented, "the filter groupby"},
      {"{{ 'a'.encode() }}", StatusCode::kUnimplemented, "the method encode of a string"},
      {"{{ 'a'.x() }}", StatusCode::kInvalidArgument, "there is no method x"},
      {"{{ 'a' | trim('a', 1) }}", StatusCode::kInvalidArgument, "trim takes 1 arguments, not 2"},
      {"{{ 'a' | trim(x='a') }}", StatusCode::kInvalidArgument, "trim has no argument x"},
      {"{{ 'aa'.replace('a') }}", StatusCode::kInvalidArgument, "replace needs an argument new"},
      {"{{ 'ab'.center('b') }}", StatusCode::kInvalidArgument,
       "center with a string as width, which is a whole number"},
      {"{{ 'é' | title }}", StatusCode::kUnimplemented, "title of letters beyond ASCII"},
      {"{{ 1 is prime }}", StatusCode::kUnimplemented, "the test prime"},
      {"{% macro f(a) %}{% endmacro %}\n{{ f(1, 2) }}", StatusCode::kInvalidArgument,
       "t.jinja:2: the macro f takes 1 arguments, not 2"},
      {"{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", StatusCode::kInvalidArgument,
       "the macro f has no argument b"},
      {"{% macro f() %}{% generation %}{% endgeneration %}{% endmacro %}",
       StatusCode::kUnimplemented, "{% generation %} within a capture"},
      {"{{ f(**x) }}", StatusCode::kUnimplemented, "a call with **"},
      {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
       StatusCode::kInvalidArgument, "does not come to an end"},
      {"{{ messages[0].content }}", StatusCode::kInvalidArgument,
       "messages[1]: the template does not write what it says as it is"},
      {"{% for m in messages %}{{ loop.length }}{{ m.content }}{% if loop.last %}.{% endif %}{% "
       "endfor %}",
       StatusCode::kInvalidArgument, "messages[1]: the template ends this turn in another way"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.source);
    ExpectError(SourceRefusal(c.source), c.code, {c.why});
  }
  ExpectError(SourceRefusal(std::string(5000, '(')), StatusCode::kInvalidArgument, {"messages[1]"});
  ExpectError(SourceRefusal("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"),
              StatusCode::kInvalidArgument, {"too deeply nested"});
}

TEST(ChatFormat, IsFoundBesideTheTokenizer) {
  ScratchDirectory scratch;
  EXPECT_TRUE(absl::IsNotFound(ChatFormat::Load(scratch.path()).status()));
  WriteFile(scratch / "special_tokens_map.json",
            R"({"bos_token": {"content": "<b>"}, "eos_token": "<x>"})");
  WriteFile(scratch / "tokenizer_config.json",
            R"({"eos_token": "<e>", "chat_template": [{"name": "rag", "template": "no"},
                {"name": "default", "template": "{{ bos_token }}{{ messages[1].content }}{{ eos_token }}"}]})");
  EXPECT_EQ(TextOfMessages(*ChatFormat::Load(scratch.path()), kTwoTurns, false)->text,
            "<b>Hello. <e>");
  WriteFile(scratch / "chat_template.jinja", "own");
  EXPECT_EQ(TextOfMessages(*ChatFormat::Load(scratch.path()), kTwoTurns, false)->text, "own");
  WriteFile(scratch / "chat_template.jinja", "\n{% x %}");
  ExpectError(ChatFormat::Load(scratch.path()).status(), StatusCode::kUnimplemented,
              {"chat_template.jinja:2"});
}

uint64_t RowHashOf(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// A row of conversations.json as the reader of .jsonl gives it.
Conversation ToolConversation(const JinjaValue& row) {
  Conversation chat{row["messages"]};
  if (row.contains("tools")) chat.variables["tools"] = row["tools"];
  if (row.contains("chat_template_kwargs")) chat.variables.update(row["chat_template_kwargs"]);
  return chat;
}

// Templates with macros and tools: texts, generation prompts and what is generated are those of
// transformers; and without {% generation %} the same is found to be the assistant's.
TEST(ChatFormat, ToolsAndMacrosEqualTransformers) {
  const auto expected = nlohmann::ordered_json::parse(GoldenChat("chat/tools/expected.json"));
  const auto rows = JinjaValue::parse(GoldenChat("chat/tools/conversations.json"));
  EXPECT_GE(expected.size(), 8u);
  for (const auto& [name, hashes] : expected.items()) {
    const std::string source = GoldenChat("chat/tools/" + name + ".jinja");
    const JinjaValue tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    const auto marked = ChatFormat::Parse(source, name, tokens);
    ASSERT_TRUE(marked.ok()) << marked.status();
    // Tags that do nothing trim what those would.
    const std::string without =
        std::regex_replace(source, std::regex("\\{%([-+]?)\\s*(end)?generation\\s*([-+]?)%\\}"),
                           "{%$1 set _ = 0 $3%}");
    const auto unmarked = ChatFormat::Parse(without, name, tokens);
    ASSERT_TRUE(unmarked.ok()) << unmarked.status();
    for (size_t i = 0; i < rows.size(); ++i) {
      SCOPED_TRACE(absl::StrCat(name, " row ", i));
      const Conversation chat = ToolConversation(rows[i]);
      const auto text = marked->RenderText(chat, false, kChatDay);
      if (hashes[i].is_null()) {
        EXPECT_FALSE(text.ok());
        continue;
      }
      ASSERT_TRUE(text.ok()) << text.status();
      ASSERT_EQ(absl::StrFormat("%016x", RowHashOf(text->text)), hashes[i][0]) << text->text;
      const auto prompt = marked->RenderText(chat, true, kChatDay);
      ASSERT_TRUE(prompt.ok()) << prompt.status();
      ASSERT_EQ(absl::StrFormat("%016x", RowHashOf(prompt->text)), hashes[i][1]) << prompt->text;
      const auto learnt = [](const ChatText& chat_text) {
        std::string all;
        for (const auto& [begin, end] : chat_text.learnt) {
          absl::StrAppend(&all, all.empty() ? "" : std::string(1, '\0'),
                          chat_text.text.substr(begin, end - begin));
        }
        return all;
      };
      const auto by_tags = marked->Render(chat, kChatDay);
      ASSERT_TRUE(by_tags.ok()) << by_tags.status();
      ASSERT_EQ(absl::StrFormat("%016x", RowHashOf(learnt(*by_tags))), hashes[i][2]);
      // Where the generation prompt writes an empty thought, that is not learnt.
      if (name == "observations" && rows[i].contains("chat_template_kwargs")) continue;
      const auto found = unmarked->Render(chat, kChatDay);
      ASSERT_TRUE(found.ok()) << found.status();
      ASSERT_EQ(found->text, text->text);
      ASSERT_EQ(learnt(*found), learnt(*by_tags));
    }
  }
}

const JinjaValue kInParts = {
    {{"role", "user"},
     {"content", {{{"type", "text"}, {"text", "a "}}, {{"type", "text"}, {"text", "b"}}}}},
    {{"role", "assistant"}, {"content", {{{"type", "text"}, {"text", "c"}}}}}};

// A template that goes through parts gets them; another gets their texts.
TEST(ChatFormat, PartsAreReadByTemplatesThatReadThem) {
  const auto learnt_of = [](const std::string& source) {
    const auto format = ChatFormat::Parse(source, "t", JinjaValue::object());
    const auto text = format->Render({kInParts}, kChatDay);
    EXPECT_TRUE(text.ok()) << text.status();
    std::string learnt;
    for (const auto& [begin, end] : text->learnt) learnt += text->text.substr(begin, end - begin);
    return text->text + "|" + learnt;
  };
  EXPECT_EQ(
      learnt_of("{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content "
                "}}{% else %}{% for p in m.content %}<{{ p.text }}>{% endfor %}{% endif %}."
                "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"),
      "[user]<a ><b>.[assistant]<c>.|<c>.");
  EXPECT_EQ(learnt_of("{% for m in messages %}[{{ m.role }}]{{ m.content + '.' }}{% endfor %}"
                      "{% if add_generation_prompt %}[assistant]{% endif %}"),
            "[user]a b.[assistant]c.|c.");
  EXPECT_EQ(learnt_of("{% for m in messages %}[{{ m.role }}]{{ m.content }}.{% endfor %}"
                      "{% if add_generation_prompt %}[assistant]{% endif %}"),
            "[user]a b.[assistant]c.|c.");
}

// Messages that are read and not learnt.
TEST(ChatFormat, AMessageMayBeLeftUnlearnt) {
  for (const char* name : {"chatml", "generation"}) {
    const ChatFormat format = FormatOf(name);
    const auto chat = format.Render({kTwoTurns, JinjaValue::object(), {1}}, kChatDay);
    ASSERT_TRUE(chat.ok()) << chat.status();
    ASSERT_EQ(chat->learnt.size(), 1u);
    EXPECT_EQ(chat->text.substr(chat->learnt[0].first, 3), "Bye");
  }
  const auto twice = ChatFormat::Parse(
      "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}", "t",
      JinjaValue::object());
  ExpectError(twice->Render({kTwoTurns, JinjaValue::object(), {1}}, kChatDay).status(),
              StatusCode::kInvalidArgument,
              {"marks 4 stretches as the assistant's for 2 messages"});
}

}  // namespace
}  // namespace spillway
