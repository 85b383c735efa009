// Any text as a chat template: a status, or text whose learnt parts lie in it, in order.
#include "engine/chat/chat_format.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

namespace {

// Whether the template takes these messages; what is learnt of them lies in the text, in order.
bool Renders(const ChatFormat& format, const JinjaValue& messages) {
  const auto chat = format.Render({messages}, absl::CivilSecond(2026, 2, 3));
  if (!chat.ok()) {
    return Refuse(chat.status(),
                  {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented});
  }
  size_t last = 0;
  for (const auto& [begin, end] : chat->learnt) {
    SPILLWAY_CHECK(last <= begin && begin <= end && end <= chat->text.size());
    last = end;
  }
  return true;
}

}  // namespace

SPILLWAY_FUZZ(chat_template, 2000) {
  static const JinjaValue turns = {{{"role", "user"}, {"content", "Hi\n"}},
                                   {{"role", "assistant"}, {"content", "<think>\n</think> Hello "}},
                                   {{"role", "user"}, {"content", ""}},
                                   {{"role", "assistant"}, {"content", "Bye"}}};
  static const JinjaValue with_system = [] {
    const JinjaValue system = {{"role", "system"}, {"content", "Be brief."}};
    JinjaValue messages = turns;
    messages.insert(messages.begin(), system);
    return messages;
  }();
  const auto format =
      ChatFormat::Parse(input, "fuzz", {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  if (!format.ok()) {
    return Refuse(format.status(),
                  {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented});
  }
  // Some refuse a system's message.
  const bool renders = Renders(*format, with_system);
  return Renders(*format, turns) || renders;
}

}  // namespace spillway
