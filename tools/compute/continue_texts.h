// Texts continued token by token, several at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/compute/text_model.h"

namespace spillway {

struct Continuation {
  std::vector<int64_t> tokens;  // new ones
  std::string text;             // of them
  bool ended = false;           // by a token that ends texts, which is the last one
};

struct ContinueHooks {
  // Of a prompt by its place in the list. May be null.
  std::function<void(size_t prompt, const std::string& text)> on_text;
  // A text that is whole: as soon as it is, in any order. An error ends it all.
  std::function<absl::Status(size_t prompt, const Continuation& whole)> on_end;
  // Asked after every token of all: an error ends it. May be null.
  std::function<absl::Status()> after_tokens;
};

// `rows` at a time: where one has ended, the next takes its place. With beams a text is shown when
// it is whole. REQUIRES: the generator was
// started for these prompts and as many rows.
absl::Status ContinueTexts(TextModel& model, const std::vector<Prompt>& prompts, int rows,
                           const ContinueHooks& hooks);

}  // namespace spillway
