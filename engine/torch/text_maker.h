// Texts that an evaluation generates during training, from its samples or from prompts: the
// interfaces of the generator, which requests tokens, and of the model, which computes them.
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

// The tokens so far of a text that is being generated.
struct TextBeginning {
  int64_t sample = 0;           // number in the evaluation, or among the prompts
  std::vector<int64_t> tokens;  // from the first token that the decoder reads
};

// Computes the model on beginnings like an evaluation on samples: by passes over all weights,
// within the memory of a training step. Calls are independent.
class NextTokens {
 public:
  virtual ~NextTokens() = default;

  // Returns the logits [classes], fp32 and in host memory, of the token after each beginning.
  virtual absl::StatusOr<std::vector<torch::Tensor>> After(
      const std::vector<TextBeginning>& texts) = 0;

  // Number of beginnings per pass: a call for more takes several passes.
  virtual int64_t at_once() const = 0;
};

// Makes batches of beginnings, and states the memory for choosing tokens.
class TextBatches {
 public:
  virtual ~TextBatches() = default;

  // Inputs and fields of these beginnings, padded to one length; no labels. REQUIRES: no beginning
  // is longer than the longest that Make passes to NextTokens.
  virtual absl::StatusOr<Batch> BatchOf(absl::Span<const TextBeginning> texts) = 0;

  // Largest number of logits, [classes] each, that are used together, and their classes.
  virtual int64_t together() const = 0;
  virtual int64_t classes() const = 0;
};

// For models with an encoder: the texts by which an evaluation is measured.
class TextMaker : public TextBatches {
 public:
  // Generates texts for samples [begin, end) and compares them with their targets, in order.
  virtual absl::StatusOr<std::vector<TextCounts>> Make(int64_t begin, int64_t end,
                                                       NextTokens& next) = 0;
};

class SampleWriter : public TextBatches {
 public:
  // Continues every prompt, in order.
  virtual absl::StatusOr<std::vector<SampleText>> Write(NextTokens& next) = 0;
};

}  // namespace spillway
