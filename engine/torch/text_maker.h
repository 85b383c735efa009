// Texts that a model with an encoder makes of an evaluation's samples while it is trained: who asks
// for tokens, and who computes what comes next.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/measures/text_measures.h"
#include "engine/torch/model.h"

namespace spillway {

// What there is of a text that is being made.
struct TextBeginning {
  int64_t sample = 0;           // of the evaluation: its source is read
  std::vector<int64_t> tokens;  // so far, with the one that every text begins with
};

// Computes the model on beginnings as an evaluation computes it on samples: by passes over all
// weights, within the memory of a training step. Nothing is kept from one call to the next.
class NextTokens {
 public:
  virtual ~NextTokens() = default;

  // The logits [classes], fp32 and in the host's memory, of the token after each.
  virtual absl::StatusOr<std::vector<torch::Tensor>> After(
      const std::vector<TextBeginning>& texts) = 0;

  // How many beginnings one pass takes: a call for more takes several.
  virtual int64_t at_once() const = 0;
};

class TextMaker {
 public:
  virtual ~TextMaker() = default;

  // Inputs and fields of these beginnings, padded to one length; no labels. REQUIRES: no beginning
  // is longer than the longest that Make gives to NextTokens.
  virtual absl::StatusOr<Batch> BatchOf(absl::Span<const TextBeginning> texts) = 0;

  // The most logits, [classes] each, that Make looks at together, and their classes.
  virtual int64_t together() const = 0;
  virtual int64_t classes() const = 0;

  // Makes the texts of samples [begin, end) and compares them with their targets, in their order.
  virtual absl::StatusOr<std::vector<TextCounts>> Make(int64_t begin, int64_t end,
                                                       NextTokens& next) = 0;
};

}  // namespace spillway
