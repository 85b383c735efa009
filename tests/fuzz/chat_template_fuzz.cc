// Any text as a chat template: a status, or text whose learnt parts lie in it, in order.
#include "engine/data/chat_format.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  static const JinjaValue messages = {
      {{"role", "system"}, {"content", "Be brief."}},
      {{"role", "user"}, {"content", "Hi\n"}},
      {{"role", "assistant"}, {"content", "<think>\n</think> Hello "}},
      {{"role", "user"}, {"content", ""}},
      {{"role", "assistant"}, {"content", "Bye"}}};
  const auto format =
      ChatFormat::Parse(Text(data, size), "fuzz", {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  if (!format.ok()) {
    Expect(format.status(), {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented});
    return 0;
  }
  const auto chat = format->Render(messages);
  if (!chat.ok()) {
    Expect(chat.status(), {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented,
                           absl::StatusCode::kResourceExhausted});
    return 0;
  }
  size_t last = 0;
  for (const auto& [begin, end] : chat->learnt) {
    SPILLWAY_CHECK(last <= begin && begin <= end && end <= chat->text.size());
    last = end;
  }
  return 0;
}
