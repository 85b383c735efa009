// A prompt and its completion as tokens: together those of one text.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

// Encodes pairs, one after the other. The prompt has the tokens that it has alone, as it is given
// when a text is generated. Where the tokens of prompt and completion as one text begin with these,
// the rest of them is the completion. Otherwise a token of the one text would lie across the place
// where the two meet (or the tokenizer changes what is before it): then the completion is encoded
// by itself, as the continuation of a text (TextEncoder::Continue). One thread; the tokenizer must
// outlive it.
class PairEncoder {
 public:
  explicit PairEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Calls `take` with the tokens in their order, a piece at a time: those of the prompt first.
  // Memory is bounded by a piece. Errors as of TextEncoder, and those of `take`.
  using Take = std::function<absl::Status(const std::vector<uint32_t>& tokens, bool of_prompt)>;
  absl::Status Encode(absl::string_view prompt, absl::string_view completion, const Take& take);

 private:
  // Also gives the next piece of the one text to its encoder. It is left out from an error on.
  void EncodeWhole(absl::string_view piece, bool ends);
  // Drops the beginnings that both have; notes where they differ.
  void Compare();

  const Tokenizer& tokenizer_;
  std::unique_ptr<TextEncoder> part_encoder_, whole_encoder_;  // null: not needed yet
  // Tokens of the prompt, and of the one text, that have not been compared.
  std::vector<uint32_t> alone_, whole_;
  bool same_ = true;
};

}  // namespace spillway
