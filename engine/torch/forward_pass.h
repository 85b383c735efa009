// Computes the outputs of a model, or of its encoder, for some batches, unit by unit: at most one
// unit's weights have to be in memory at a time.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/torch/compute_place.h"
#include "engine/torch/model.h"
#include "engine/torch/value_flow.h"
#include "engine/weights/weight_source.h"
#include "swap/device/memory_budget.h"

namespace spillway {

struct ForwardOptions {
  DType dtype = DType::kFloat32;
  bool fp32_products = false;  // UnitContext::fp32_products
  int threads = 1;
  uint64_t device_memory_bytes = uint64_t{512} << 20;
  ComputePlace place;  // referenced objects outlive the pass
};

// Compute thread only. One at a time: LibTorch's memory counts against the newest one's budget.
class ForwardPass {
 public:
  // All outlive the object. REQUIRES: no unit borrows, except the loss unit.
  ForwardPass(const Model& model, WeightSource* weights, const ForwardOptions& options);
  ~ForwardPass();

  // Number of batches per Run, if `hidden_bytes` is the largest hidden state of one: 1 if all
  // weights stay in memory, otherwise as many as fit, since each Run reads all weights again.
  int64_t batches_at_once(uint64_t hidden_bytes) const;

  // The last unit's outputs, or the encoder's if there is one, in fp32 and host memory, as in
  // evaluation. An error of exit code 3 if the budget has no room.
  absl::StatusOr<std::vector<torch::Tensor>> Run(const std::vector<Batch>& batches);

  // The loss unit's logits of rows [rows, features] of such outputs, in fp32 and host memory.
  // Errors as for Run.
  absl::StatusOr<torch::Tensor> Logits(const torch::Tensor& rows);

 private:
  using Tensors = std::vector<torch::Tensor>;
  // Converts exceptions of LibTorch in `f` to a status.
  template <typename T>
  absl::StatusOr<T> Caught(const std::function<absl::StatusOr<T>()>& f) const;
  absl::StatusOr<std::vector<torch::Tensor>> Compute(const std::vector<Batch>& batches);
  absl::StatusOr<torch::Tensor> ComputeLogits(const torch::Tensor& rows);
  absl::StatusOr<Tensors> ReadUnit(int unit);
  absl::StatusOr<torch::Tensor> ReadTensor(const std::string& name,
                                           const std::vector<int64_t>& shape, DType dtype);
  int num_units() const { return static_cast<int>(kept_.size()); }

  const Model& model_;
  const ValueFlow flow_;
  WeightSource& weights_;
  const ForwardOptions options_;
  MemoryBudget budget_;
  uint64_t largest_unit_bytes_ = 0;
  bool keeps_weights_ = false;    // of all units, after the first read
  std::vector<Tensors> kept_;     // [unit]
  std::vector<Tensors> buffers_;  // [unit], after the first read of its weights
};

}  // namespace spillway
