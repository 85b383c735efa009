// Continues texts token by token, several at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/tasks/text_model.h"

namespace spillway {

struct Continuation {
  std::vector<int64_t> tokens;  // new tokens
  std::string text;             // text of these tokens
  bool ended = false;           // by a token that ends texts, which is the last one...
  bool stopped = false;         // ... or by a stop text, which is removed from `text`
};

struct ContinueHooks {
  // Called with new text of a prompt, by its index in the list. May be null.
  std::function<void(size_t prompt, const std::string& text)> on_text;
  // Called with each complete text at once, in any order. An error ends the generation.
  std::function<absl::Status(size_t prompt, const Continuation& whole)> on_end;
  // Called after a token for every text: an error ends the generation. May be null.
  std::function<absl::Status()> after_tokens;
};

// Computes the next tokens of some texts, each of which has a row, or with beams a row each.
class TextRows {
 public:
  virtual ~TextRows() = default;

  // Generator::Append.
  virtual absl::StatusOr<std::vector<torch::Tensor>> Append(const std::vector<RowTokens>& rows,
                                                            bool more) = 0;
  // Begins the text of a prompt in the row, by its index in the list; none: the row is empty.
  virtual absl::Status Begin(int row, std::optional<size_t> prompt) = 0;
  // Generator::Fork.
  virtual absl::Status Fork(int from, int to) = 0;
};

// All outlive the object.
struct TextWriting {
  TextRows& rows;
  const Tokenizer& tokenizer;
  const SamplingOptions& sampling;
};

// Continues `texts` at a time: when one has ended, the next takes its place. With beams a text is
// shown when it is complete.
absl::Status ContinueTexts(const TextWriting& writing, const std::vector<Prompt>& prompts,
                           int texts, const ContinueHooks& hooks);

// Uses the model's generator. REQUIRES: it was started for these prompts and as many texts.
absl::Status ContinueTexts(TextModel& model, const std::vector<Prompt>& prompts, int texts,
                           const ContinueHooks& hooks);

}  // namespace spillway
