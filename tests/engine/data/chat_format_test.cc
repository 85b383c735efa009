#include "engine/data/chat_format.h"

#include "absl/strings/str_format.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;

std::string GoldenChat(const std::string& name) {
  return ReadFile(std::string(SPILLWAY_SOURCE_DIR) + "/tests/golden/" + name);
}

// conversation() of tests/golden/make_chat.py.
class ConversationMaker {
 public:
  ConversationMaker() {
    const auto snippets = nlohmann::json::parse(GoldenChat("tokenizers/snippets.json"));
    words_ = snippets["words"].get<std::vector<std::string>>();
    fragments_ = snippets["fragments"].get<std::vector<std::string>>();
  }

  JinjaValue Conversation(uint64_t number, bool system, bool thinking) {
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
            format.RenderText(maker.Conversation(i, system, name == "qwen3"), i % 2 == 1);
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
  const auto chat = format.Render(messages);
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
      const JinjaValue messages = maker.Conversation(i, false, false);
      const auto chat = format.Render(messages);
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

absl::Status Refusal(const std::string& source) {
  auto format = ChatFormat::Parse(source, "t.jinja", JinjaValue::object());
  return format.ok() ? format->Render(kTwoTurns).status() : format.status();
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
      {"{{ messages.x.y }}", StatusCode::kInvalidArgument, "what is undefined has no \"y\""},
      {"{{ 'a' + 1 }}", StatusCode::kInvalidArgument, "a string + a number"},
      {"{{ 1 // 0 }}", StatusCode::kInvalidArgument, "a division by zero"},
      {"{{ range(1000000) }}", StatusCode::kInvalidArgument, "a range of more than"},
      {"{% macro f() %}{% endmacro %}", StatusCode::kUnimplemented, "{% macro %}"},
      {"\n{{ strftime_now('%d') }}", StatusCode::kUnimplemented,
       "t.jinja:2: the function strftime_now"},
      {"{{ messages | sort }}", StatusCode::kUnimplemented, "the filter sort"},
      {"{{ 'a'.center(3) }}", StatusCode::kUnimplemented, "the method center of a string"},
      {"{{ 'a' | trim('a') }}", StatusCode::kUnimplemented, "argument 1 of trim"},
      {"{{ 'aa' | replace('a', 'b', 1) }}", StatusCode::kUnimplemented, "argument 3 of replace"},
      {"{{ 'aa'.replace('a', 'b', 0) }}", StatusCode::kUnimplemented, "argument 3 of replace"},
      {"{{ messages | tojson(sort_keys=true) }}", StatusCode::kUnimplemented,
       "the argument sort_keys of tojson"},
      {"{{ 'x' | int(5) }}", StatusCode::kUnimplemented, "argument 1 of int"},
      {"{{ 'ab'.startswith('b', 1) }}", StatusCode::kUnimplemented, "argument 2 of startswith"},
      {"{{ 'a,b'.split(sep=',')[0] }}", StatusCode::kUnimplemented, "the argument sep of split"},
      {"{{ messages | map(attribute='x', default='d') | list }}", StatusCode::kUnimplemented,
       "the argument default of map"},
      {"{{ 1 is prime }}", StatusCode::kUnimplemented, "the test prime"},
      {"{{ messages }}", StatusCode::kUnimplemented, "writing a list without tojson"},
      {"{{ 1, 2 }}", StatusCode::kUnimplemented, "a tuple"},
      {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
       StatusCode::kResourceExhausted, "does not come to an end"},
      {"{{ messages[0].content }}", StatusCode::kInvalidArgument,
       "messages[1]: the template does not write this content as it is, and once"},
      {"{% for m in messages %}{{ loop.length }}{{ m.content }}{% if loop.last %}.{% endif %}{% "
       "endfor %}",
       StatusCode::kInvalidArgument, "messages[1]: the template ends this turn in another way"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.source);
    ExpectError(Refusal(c.source), c.code, {c.why});
  }
  ExpectError(Refusal(std::string(5000, '(')), StatusCode::kInvalidArgument, {"messages[1]"});
  ExpectError(Refusal("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"),
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
  EXPECT_EQ(ChatFormat::Load(scratch.path())->RenderText(kTwoTurns, false)->text, "<b>Hello. <e>");
  WriteFile(scratch / "chat_template.jinja", "own");
  EXPECT_EQ(ChatFormat::Load(scratch.path())->RenderText(kTwoTurns, false)->text, "own");
  WriteFile(scratch / "chat_template.jinja", "\n{% x %}");
  ExpectError(ChatFormat::Load(scratch.path()).status(), StatusCode::kUnimplemented,
              {"chat_template.jinja:2"});
}

}  // namespace
}  // namespace spillway
