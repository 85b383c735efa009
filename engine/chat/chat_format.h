// Renders conversations with a model's chat template, and finds the assistant's part of the text.
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
  // The ranges of bytes [first, second) with loss, in order; whole characters.
  std::vector<std::pair<size_t, size_t>> learnt;
};

// The local date and time.
ChatClock ChatTimeNow();

// Immutable: any thread.
class ChatFormat {
 public:
  // Reads chat_template.jinja of the directory, or "chat_template" of its tokenizer_config.json (of
  // several the one named "default"), with the special tokens named in tokenizer_config.json and
  // special_tokens_map.json. kNotFound without a template; kInvalidArgument and kUnimplemented name
  // file and line.
  static absl::StatusOr<ChatFormat> Load(absl::string_view directory);

  // `variables`: values for the template besides messages; `file` is for messages.
  static absl::StatusOr<ChatFormat> Parse(absl::string_view source, absl::string_view file,
                                          JinjaValue variables);

  // Whether the text may depend on the date.
  bool reads_clock() const { return template_.reads_clock; }

  // Replaces a token that templates use by name, such as "eos_token".
  void SetToken(const std::string& name, const std::string& token) { variables_[name] = token; }

  // The whole text, and its parts in {% generation %}, as transformers' apply_chat_template renders
  // it at the time `now`. If the template does not read contents that are lists of parts, it gets
  // their texts concatenated.
  absl::StatusOr<JinjaText> RenderText(const Conversation& conversation, bool add_generation_prompt,
                                       ChatClock now) const;

  // The assistant's turns are in {% generation %}, or else found by FindTurns; they have loss
  // except for the conversation's `unlearnt` ones. kInvalidArgument: the template raises, or
  // changes the text that FindTurns looks for.
  absl::StatusOr<ChatText> Render(const Conversation& conversation, ChatClock now) const;

 private:
  absl::StatusOr<JinjaText> RenderMessages(const Conversation& conversation, JinjaValue messages,
                                           bool add_generation_prompt, ChatClock now) const;
  // The messages in the form that the template reads.
  JinjaValue Readable(const Conversation& conversation, ChatClock now) const;

  std::string file_;
  JinjaValue variables_;
  JinjaTemplate template_;
};

}  // namespace spillway
