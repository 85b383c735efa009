#include "engine/tokenizers/turn_end.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "engine/chat/chat_format.h"

namespace spillway {

std::optional<uint32_t> EndOfTurn(const Tokenizer& tokenizer) {
  const auto format = tokenizer.chat();
  if (!format.ok()) return std::nullopt;
  constexpr absl::string_view kAnswer = "Spillway";
  Conversation conversation;
  conversation.messages = {{{"role", "user"}, {"content", "Hi"}},
                           {{"role", "assistant"}, {"content", std::string(kAnswer)}}};
  const auto written =
      (*format)->RenderText(conversation, /*add_generation_prompt=*/false, ChatTimeNow());
  if (!written.ok()) return std::nullopt;
  const absl::string_view text = written->text;
  const size_t answer = text.rfind(kAnswer);
  if (answer == absl::string_view::npos) return std::nullopt;
  const auto tokens = tokenizer.Encode(text.substr(answer + kAnswer.size()));
  if (!tokens.ok()) return std::nullopt;
  for (const int64_t token : *tokens) {
    if (!absl::StripAsciiWhitespace(tokenizer.TextOf(token)).empty()) {
      if (tokenizer.IsAdded(token)) return static_cast<uint32_t>(token);
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace spillway
