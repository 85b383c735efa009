#include "engine/data/chat_turns.h"

#include <csignal>

#include "engine/base/stop_signal.h"
#include "engine/data/chat_format.h"
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
    const auto rendered = format->RenderText(some, prompt);
    if (!rendered.ok()) return rendered.status();
    ++out.renderings;
    out.bytes += rendered->text.size();
    return rendered->text;
  };
  const std::string text = format->RenderText(messages, false)->text;
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

TEST(ChatTurns, CharactersOfPrivateUseAreTextAsOthersAre) {
  const JinjaValue messages = {{{"role", "user"}, {"content", "\ue000"}},
                               {{"role", "assistant"}, {"content", "\ue001\ue000"}},
                               {{"role", "user"}, {"content", "\ue000\ue000"}},
                               {{"role", "assistant"}, {"content", "\ue000"}}};
  const TurnsFound found = FindIn(GoldenTemplate("zephyr"), messages);
  ASSERT_TRUE(found.status.ok()) << found.status;
  EXPECT_EQ(found.turns, (Turns{"\ue001\ue000</s>\n", "\ue000</s>\n"}));
}

TEST(ChatTurns, ASignalEndsTheSearch) {
  const StopSignal signals;
  StopSignal::Receive(SIGTERM);
  ExpectError(FindIn(GoldenTemplate("zephyr"), LongConversation(2, "")).status,
              StatusCode::kCancelled, {"stopped by SIGTERM"});
}

}  // namespace
}  // namespace spillway
