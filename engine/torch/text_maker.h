// Texts that an evaluation makes while the model is trained, of its samples or of prompts: who asks
// for tokens, and who computes what comes next.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/measures/sample_text.h"
#include "engine/measures/text_measures.h"
#include "engine/torch/model.h"

namespace spillway {

// What there is of a text that is being made.
struct TextBeginning {
  int64_t sample = 0;           // whose it is: of the evaluation, or of the prompts
  std::vector<int64_t> tokens;  // so far, from the first that the decoder reads
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

// How beginnings become batches, and what looking at what comes next takes.
class TextBatches {
 public:
  virtual ~TextBatches() = default;

  // Inputs and fields of these beginnings, padded to one length; no labels. REQUIRES: no beginning
  // is longer than the longest that Make gives to NextTokens.
  virtual absl::StatusOr<Batch> BatchOf(absl::Span<const TextBeginning> texts) = 0;

  // The most logits, [classes] each, that are looked at together, and their classes.
  virtual int64_t together() const = 0;
  virtual int64_t classes() const = 0;
};

// For models with an encoder: the texts that an evaluation is measured by.
class TextMaker : public TextBatches {
 public:
  // Makes the texts of samples [begin, end) and compares them with their targets, in their order.
  virtual absl::StatusOr<std::vector<TextCounts>> Make(int64_t begin, int64_t end,
                                                       NextTokens& next) = 0;
};

class SampleWriter : public TextBatches {
 public:
  // Continues every prompt, in their order.
  virtual absl::StatusOr<std::vector<SampleText>> Write(NextTokens& next) = 0;
};

}  // namespace spillway
