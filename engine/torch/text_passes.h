// Texts that an evaluation makes by passes over all weights, within the memory of a training step.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/numeric/dtype.h"
#include "engine/torch/step_batches.h"
#include "engine/torch/text_maker.h"

namespace spillway {

// How many at once: as many as the memory of the last operation of a training step, which holds the
// logits of `loss_rows` labels in the run's dtype, has room for; up to `samples_at_once`.
int64_t TextsAtOnce(int64_t loss_rows, DType dtype, int64_t samples_at_once);

// Of the logits of as few as must be together.
uint64_t TextLogitsBytes(const TextBatches& texts);

// `pass` computes what `batches` has loaded.
class TextPasses : public NextTokens {
 public:
  // All outlive it.
  TextPasses(StepBatches& batches, TextBatches& texts, int64_t at_once,
             const std::function<absl::Status()>& pass)
      : batches_(batches), texts_(texts), at_once_(at_once), pass_(pass) {}

  int64_t at_once() const override { return at_once_; }
  absl::StatusOr<std::vector<torch::Tensor>> After(
      const std::vector<TextBeginning>& texts) override;

 private:
  StepBatches& batches_;
  TextBatches& texts_;
  const int64_t at_once_;
  const std::function<absl::Status()>& pass_;
};

}  // namespace spillway
