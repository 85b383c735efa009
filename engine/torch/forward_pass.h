// What a model, or its encoder, makes of some batches, unit by unit: no more than one unit's
// weights need to be in memory at a time.
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
  ComputePlace place;  // what it points to outlives the pass
};

// Compute thread only. One at a time: LibTorch's memory counts against the newest one's budget.
class ForwardPass {
 public:
  // All outlive it. REQUIRES: no unit borrows, but for the loss unit.
  ForwardPass(const Model& model, WeightSource* weights, const ForwardOptions& options);
  ~ForwardPass();

  // How many batches to give to Run at once, where the largest hidden state of one has so many
  // bytes: 1 where all weights stay in memory, otherwise as many as have room, since each Run reads
  // all weights anew.
  int64_t batches_at_once(uint64_t hidden_bytes) const;

  // The last unit's outputs, or the encoder's where there is one, in fp32 and the host's memory, as
  // in evaluation. A status that ends in exit code 3 where the budget has no room.
  absl::StatusOr<std::vector<torch::Tensor>> Run(const std::vector<Batch>& batches);

  // The loss unit's logits of rows [rows, features] of such outputs, in fp32 and the host's memory.
  // Errors as of Run.
  absl::StatusOr<torch::Tensor> Logits(const torch::Tensor& rows);

 private:
  using Tensors = std::vector<torch::Tensor>;
  // What LibTorch throws in `f` as a status.
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
  bool keeps_weights_ = false;    // all units', once they are read
  std::vector<Tensors> kept_;     // [unit]
  std::vector<Tensors> buffers_;  // [unit], once its weights were first read
};

}  // namespace spillway
