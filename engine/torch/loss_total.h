// The sum of a step's losses, computed on the device and read once: on a GPU every read of a number
// waits for all work in its stream.
#pragma once

#include <torch/types.h>

#include <optional>

#include "engine/torch/compute_place.h"

namespace spillway {

// Compute thread, in a ComputeScope of the place. May throw LibTorch's exceptions.
class LossTotal {
 public:
  explicit LossTotal(const ComputePlace& place) : place_(place) {}

  void Clear();
  // `loss`: one number, on the place.
  void Add(const torch::Tensor& loss);
  // Called after the last Add, and before Read: starts the copy to the host. Does not wait.
  void Send();
  // The sum of the last Send. Waits only until the device has copied it.
  double Read();
  // The result of the last Read; if LibTorch computes synchronously, the sum so far.
  double value() const { return value_; }

 private:
  const ComputePlace place_;
  double value_ = 0;
  torch::Tensor total_, sent_;    // fp64: on the device, and pinned
  std::optional<c10::Event> at_;  // the copy to sent_ is done
};

}  // namespace spillway
