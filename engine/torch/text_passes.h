// Texts generated in evaluations by passes over all weights, within the memory of a training step.
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

// Number of texts at once: as many as fit the memory of a training step's last operation, which has
// the logits of `loss_rows` labels in the run's dtype; at most `samples_at_once`.
int64_t TextsAtOnce(int64_t loss_rows, DType dtype, int64_t samples_at_once);

// Memory for the smallest number of logits that must be used together.
uint64_t TextLogitsBytes(const TextBatches& texts);

// `pass` computes the batches that `batches` has loaded.
class TextPasses : public NextTokens {
 public:
  // All outlive the object.
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
