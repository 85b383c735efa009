// Texts continued token by token, several at a time.
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
  std::vector<int64_t> tokens;  // new ones
  std::string text;             // of them
  bool ended = false;           // by a token that ends texts, which is the last one...
  bool stopped = false;         // ... or by one of the texts that stop it, which `text` has not
};

struct ContinueHooks {
  // Of a prompt by its place in the list. May be null.
  std::function<void(size_t prompt, const std::string& text)> on_text;
  // A text that is whole: as soon as it is, in any order. An error ends it all.
  std::function<absl::Status(size_t prompt, const Continuation& whole)> on_end;
  // Asked after every token of all: an error ends it. May be null.
  std::function<absl::Status()> after_tokens;
};

// Who computes what comes next in some texts, each of which has a row, or with beams a row each.
class TextRows {
 public:
  virtual ~TextRows() = default;

  // Generator::Append.
  virtual absl::StatusOr<std::vector<torch::Tensor>> Append(const std::vector<RowTokens>& rows,
                                                            bool more) = 0;
  // The row begins the text of a prompt, by its place in the list; none: it is empty.
  virtual absl::Status Begin(int row, std::optional<size_t> prompt) = 0;
  // Generator::Fork.
  virtual absl::Status Fork(int from, int to) = 0;
};

// All outlive it.
struct TextWriting {
  TextRows& rows;
  const Tokenizer& tokenizer;
  const SamplingOptions& sampling;
};

// `texts` at a time: where one has ended, the next takes its place. With beams a text is shown when
// it is whole.
absl::Status ContinueTexts(const TextWriting& writing, const std::vector<Prompt>& prompts,
                           int texts, const ContinueHooks& hooks);

// By the model's generator. REQUIRES: it was started for these prompts and as many texts.
absl::Status ContinueTexts(TextModel& model, const std::vector<Prompt>& prompts, int texts,
                           const ContinueHooks& hooks);

}  // namespace spillway
