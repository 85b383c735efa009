// Conversations as text: a model's chat template, and which of the text is the assistant's.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/chat/conversation.h"
#include "engine/chat/jinja_render.h"
#include "engine/chat/jinja_syntax.h"

namespace spillway {

struct ChatText {
  std::string text;
  // Bytes [first, second) of what is learnt of it, in order; whole characters.
  std::vector<std::pair<size_t, size_t>> learnt;
};

// The date and time of day here and now.
ChatClock ChatTimeNow();

// Immutable: any thread.
class ChatFormat {
 public:
  // chat_template.jinja of the directory, or "chat_template" of its tokenizer_config.json (of
  // several the one named "default"), with the special tokens that tokenizer_config.json and
  // special_tokens_map.json name. kNotFound where there is none; kInvalidArgument and
  // kUnimplemented name file and line.
  static absl::StatusOr<ChatFormat> Load(absl::string_view directory);

  // `variables`: what the template may use besides messages; `file` is for messages.
  static absl::StatusOr<ChatFormat> Parse(absl::string_view source, absl::string_view file,
                                          JinjaValue variables);

  // Whether what it writes may depend on the day.
  bool reads_clock() const { return template_.reads_clock; }

  // Another token for a name that templates use, as "eos_token".
  void SetToken(const std::string& name, const std::string& token) { variables_[name] = token; }

  // The whole text, and what stands in {% generation %}, as transformers' apply_chat_template
  // writes it at the time `now`. A template that does not read contents that are lists of parts
  // gets the texts of the parts, put together.
  absl::StatusOr<JinjaText> RenderText(const Conversation& conversation, bool add_generation_prompt,
                                       ChatClock now) const;

  // What the assistant says is what stands in {% generation %}, and in a template without what
  // FindTurns finds; what is learnt is that but for the conversation's `unlearnt`.
  // kInvalidArgument: the template raises, or changes what is to be found.
  absl::StatusOr<ChatText> Render(const Conversation& conversation, ChatClock now) const;

 private:
  absl::StatusOr<JinjaText> RenderMessages(const Conversation& conversation, JinjaValue messages,
                                           bool add_generation_prompt, ChatClock now) const;
  // The messages as the template reads them.
  JinjaValue Readable(const Conversation& conversation, ChatClock now) const;

  std::string file_;
  JinjaValue variables_;
  JinjaTemplate template_;
};

}  // namespace spillway
