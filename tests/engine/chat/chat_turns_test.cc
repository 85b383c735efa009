#include "engine/chat/chat_turns.h"

#include <csignal>

#include "engine/base/stop_signal.h"
#include "engine/chat/chat_format.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;
using Turns = std::vector<std::string>;

// What FindTurns finds, and what it costs.
struct TurnsFound {
  absl::Status status;
  Turns turns;
  size_t renderings = 0, bytes = 0, text_bytes = 0;
};

TurnsFound FindIn(const std::string& source, const JinjaValue& messages) {
  const auto format = ChatFormat::Parse(
      source, "t.jinja",
      {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"date_string", "26 Jul 2024"}});
  TurnsFound out;
  const RenderMessages render = [&](const JinjaValue& some,
                                    bool prompt) -> absl::StatusOr<std::string> {
    const auto rendered = format->RenderText({some}, prompt, {});
    if (!rendered.ok()) return rendered.status();
    ++out.renderings;
    out.bytes += rendered->text.size();
    return rendered->text;
  };
  const std::string text = format->RenderText({messages}, false, {})->text;
  const auto turns = FindTurns(render, messages, text, "t.jinja");
  out.status = turns.status();
  out.text_bytes = text.size();
  if (!turns.ok()) return out;
  for (const auto& [begin, end] : *turns) out.turns.push_back(text.substr(begin, end - begin));
  return out;
}

// A user's and the assistant's `pairs` times, with the system's words before.
JinjaValue LongConversation(size_t pairs, const std::string& end) {
  JinjaValue messages = {{{"role", "system"}, {"content", "Be brief."}}};
  for (size_t i = 0; i < pairs; ++i) {
    messages.push_back({{"role", "user"}, {"content", "Question " + std::to_string(i) + end}});
    messages.push_back({{"role", "assistant"}, {"content", "Answer " + std::to_string(i) + end}});
  }
  return messages;
}

std::string GoldenTemplate(const std::string& name) {
  return ReadFile(std::string(SPILLWAY_SOURCE_DIR) + "/tests/golden/chat/" + name + ".jinja");
}

// Each rendering is as long as the conversation: their number must not grow with it.
TEST(ChatTurns, LongConversationsAreRenderedNoMoreOften) {
  for (const char* name : {"chatml", "llama2", "llama3.1", "mistral_v3", "qwen3", "zephyr"}) {
    for (const char* end : {"", " ", "\n"}) {
      SCOPED_TRACE(std::string(name) + " with '" + end + "'");
      const TurnsFound some = FindIn(GoldenTemplate(name), LongConversation(5, end));
      const TurnsFound many = FindIn(GoldenTemplate(name), LongConversation(60, end));
      ASSERT_TRUE(many.status.ok()) << many.status;
      EXPECT_EQ(many.turns.size(), 60u);
      EXPECT_EQ(many.renderings, some.renderings);
      EXPECT_LE(many.renderings, 13u);
      EXPECT_LE(many.bytes, 11 * many.text_bytes);
      for (size_t i = 0; i < many.turns.size(); ++i) {
        EXPECT_NE(many.turns[i].find("Answer " + std::to_string(i)), std::string::npos);
        EXPECT_EQ(many.turns[i].find("Question"), std::string::npos);
      }
    }
  }
}

TEST(ChatTurns, TurnsThatAreNotAlikeAreFoundEachByItself) {
  // The third answer alone ends in another way, and white space is stripped from the second.
  const char source[] =
      "{% for m in messages %}[{{ m.role[0] }}]"
      "{{ m.content | trim if m.content[:8] == 'Answer 1' else m.content }}"
      "{{ '!' if m.content[:8] == 'Answer 2' else '.' }}{% endfor %}"
      "{% if add_generation_prompt %}[a]{% endif %}";
  EXPECT_EQ(FindIn(source, LongConversation(5, " ")).turns,
            (Turns{"Answer 0 .", "Answer 1.", "Answer 2 !", "Answer 3 .", "Answer 4 ."}));
}

// Phi-3 closes a text with an end that other turns have not.
TEST(ChatTurns, ATurnsEndIsLearntAsFarAsItIsTheSame) {
  const char source[] =
      "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>\n{% else %}{{ eos_token }}{% endif %}";
  const TurnsFound found = FindIn(source, LongConversation(2, ""));
  ASSERT_TRUE(found.status.ok()) << found.status;
  EXPECT_EQ(found.turns, (Turns{"Answer 0<|end|>\n<", "Answer 1<|end|>\n</s>"}));
  // Characters stay whole: these two begin with the same byte.
  EXPECT_EQ(
      FindIn("{% for m in messages %}{{ m.content }}.{{ '\u00e9' if loop.last else '\u00e8' }}"
             "{% endfor %}",
             LongConversation(2, ""))
          .turns,
      (Turns{"Answer 0.", "Answer 1.\u00e9"}));
}

TEST(ChatTurns, LettersThatCouldMarkAreTextAsOthersAre) {
  const JinjaValue messages = {{{"role", "user"}, {"content", "\U00010600"}},
                               {{"role", "assistant"}, {"content", "\U00010601\U00010600"}},
                               {{"role", "user"}, {"content", "\U00010600\U00010600"}},
                               {{"role", "assistant"}, {"content", "\U00010600"}}};
  const TurnsFound found = FindIn(GoldenTemplate("zephyr"), messages);
  ASSERT_TRUE(found.status.ok()) << found.status;
  EXPECT_EQ(found.turns, (Turns{"\U00010601\U00010600</s>\n", "\U00010600</s>\n"}));
}

// How a thought is placed is learnt, whatever the generation prompt writes.
TEST(ChatTurns, ThoughtsAreLearntAsTheyArePlaced) {
  const std::string turns =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
      "{% endfor %}";
  const auto prompted = [&](const std::string& text, const std::string& prompt) {
    return text + "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n" + prompt +
           "' }}{% endif %}";
  };
  const JinjaValue thinks = {
      {{"role", "user"}, {"content", "Hi"}},
      {{"role", "assistant"}, {"content", "<think>\nhm\n</think>\n\nYes more"}}};
  const JinjaValue plain = {{{"role", "user"}, {"content", "Hi"}},
                            {{"role", "assistant"}, {"content", "Yes"}}};
  const std::string empty = "<think>\\n\\n</think>\\n\\n";
  const Turns all = {"<think>\nhm\n</think>\n\nYes more<|im_end|>\n"};
  EXPECT_EQ(FindIn(prompted(turns, empty), thinks).turns, all);
  EXPECT_EQ(FindIn(prompted(turns, ""), thinks).turns, all);
  EXPECT_EQ(FindIn(prompted(turns, empty), plain).turns, (Turns{"Yes<|im_end|>\n"}));
  // The generation prompt opens the thought: what follows is learnt.
  EXPECT_EQ(FindIn(prompted(turns, "<think>\\n"), thinks).turns,
            (Turns{"hm\n</think>\n\nYes more<|im_end|>\n"}));
  EXPECT_EQ(FindIn(prompted(turns, "<think>\\n"), plain).turns, (Turns{"Yes<|im_end|>\n"}));
  EXPECT_EQ(FindIn(prompted(turns, "<think>"), thinks).turns,
            (Turns{"\nhm\n</think>\n\nYes more<|im_end|>\n"}));

  // The template writes a thought that is a field of its own, or is split from the content.
  const std::string fields =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
      "{% if m.reasoning_content %}{{ '<think>\n' + m.reasoning_content + '\n</think>\n\n' }}"
      "{% endif %}{{ m.content.split('</think>')[-1].lstrip('\n') + '<|im_end|>\n' }}{% endfor %}";
  JinjaValue field = plain;
  field[1]["reasoning_content"] = "hm";
  const Turns thought = {"<think>\nhm\n</think>\n\nYes<|im_end|>\n"};
  for (const std::string& prompt : {std::string(), empty}) {
    EXPECT_EQ(FindIn(prompted(fields, prompt), field).turns, thought);
    EXPECT_EQ(FindIn(prompted(fields, prompt), plain).turns, (Turns{"Yes<|im_end|>\n"}));
    EXPECT_EQ(FindIn(prompted(fields, prompt), thinks).turns, (Turns{"Yes more<|im_end|>\n"}));
  }
  EXPECT_EQ(FindIn(prompted(fields, "<think>\\n"), field).turns,
            (Turns{"hm\n</think>\n\nYes<|im_end|>\n"}));

  // An empty thought before the last answer alone is learnt with it.
  const std::string last =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if loop.last and m.role == "
      "'assistant' %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{{ m.content + '<|im_end|>\n' }}"
      "{% endfor %}";
  EXPECT_EQ(FindIn(prompted(last, ""), plain).turns,
            (Turns{"<think>\n\n</think>\n\nYes<|im_end|>\n"}));
  EXPECT_EQ(FindIn(prompted(last, empty), plain).turns, (Turns{"Yes<|im_end|>\n"}));

  // Several turns: a thought in the middle, and a block that all have.
  JinjaValue several = field;
  several.push_back({{"role", "user"}, {"content", "And?"}});
  several.push_back({{"role", "assistant"}, {"content", "No"}});
  several.push_back({{"role", "user"}, {"content", "Why?"}});
  several.push_back({{"role", "assistant"}, {"reasoning_content", "so"}, {"content", "So"}});
  EXPECT_EQ(FindIn(prompted(fields, empty), several).turns,
            (Turns{"<think>\nhm\n</think>\n\nYes<|im_end|>\n", "No<|im_end|>\n",
                   "<think>\nso\n</think>\n\nSo<|im_end|>\n"}));
}

// Calls of tools end a turn where its content does not.
TEST(ChatTurns, CallsOfToolsAreLearnt) {
  const char source[] =
      "{% for m in messages %}[{{ m.role }}]{% if m.content %}{{ m.content }}{% endif %}"
      "{% for c in m.tool_calls or [] %}<{{ c.function.name }} {{ c.function.arguments | tojson }}>"
      "{% endfor %}.{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
  const auto call = [](const JinjaValue& arguments) {
    const JinjaValue function = {{"name", "f"}, {"arguments", arguments}};
    return JinjaValue::array({JinjaValue{{"function", function}}});
  };
  JinjaValue messages = {{{"role", "user"}, {"content", "f?"}},
                         {{"role", "assistant"}, {"content", nullptr}},
                         {{"role", "tool"}, {"name", "f"}, {"content", "1"}},
                         {{"role", "assistant"}, {"content", "f f"}},
                         {{"role", "tool"}, {"content", ""}},
                         {{"role", "assistant"}, {"content", "Done f"}}};
  messages[1]["tool_calls"] = call({{"x", "y"}, {"n", 1}});
  messages[3]["tool_calls"] = call(JinjaValue::object());
  EXPECT_EQ(FindIn(source, messages).turns,
            (Turns{"<f {\"x\": \"y\", \"n\": 1}>.", "f f<f {}>.", "Done f."}));
  messages[3]["tool_calls"] = call("{\"a\": 1}");
  EXPECT_EQ(FindIn(source, messages).turns[1], "f f<f \"{\\\"a\\\": 1}\">.");
  // Many calls that are written alike are rendered no more often.
  JinjaValue many = {{{"role", "user"}, {"content", "f?"}}};
  for (int i = 0; i < 40; ++i) {
    many.push_back({{"role", "assistant"}, {"tool_calls", call({{"x", std::to_string(i)}})}});
    many.push_back({{"role", "tool"}, {"content", std::to_string(i)}});
  }
  many.push_back({{"role", "assistant"}, {"content", "Done"}});
  const TurnsFound found = FindIn(source, many);
  EXPECT_EQ(found.turns.size(), 41u);
  EXPECT_EQ(found.turns[7], "<f {\"x\": \"7\"}>.");
  EXPECT_LE(found.renderings, 13u);
}

TEST(ChatTurns, ASignalEndsTheSearch) {
  const StopSignal signals;
  StopSignal::Receive(SIGTERM);
  ExpectError(FindIn(GoldenTemplate("zephyr"), LongConversation(2, "")).status,
              StatusCode::kCancelled, {"stopped by SIGTERM"});
}

}  // namespace
}  // namespace spillway
