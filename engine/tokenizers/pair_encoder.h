// Encodes a prompt and its completion, so that together they have the tokens of one text.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

// Encodes pairs in sequence. The prompt gets the tokens that it has alone, as in generation. If the
// tokens of prompt and completion as one text start with these, the rest is the completion.
// Otherwise a token would span the boundary (or the tokenizer changes the text before it); then the
// completion is encoded by itself, as the continuation of a text (TextEncoder::Continue). One
// thread; the tokenizer must outlive it.
class PairEncoder {
 public:
  explicit PairEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Calls `take` with the tokens in order, in pieces: the prompt's first. Memory is bounded by a
  // piece. Errors as in TextEncoder, and those of `take`.
  using Take = std::function<absl::Status(const std::vector<uint32_t>& tokens, bool of_prompt)>;
  absl::Status Encode(absl::string_view prompt, absl::string_view completion, const Take& take);

 private:
  // Encodes the next piece as part of the one text; does nothing after an error.
  void EncodeWhole(absl::string_view piece, bool ends);
  // Drops the common prefix of both token sequences; records whether they differ.
  void Compare();

  const Tokenizer& tokenizer_;
  std::unique_ptr<TextEncoder> part_encoder_, whole_encoder_;  // null: not needed yet
  // Tokens of the prompt, and of the one text, that are not yet compared.
  std::vector<uint32_t> alone_, whole_;
  bool same_ = true;
};

}  // namespace spillway
