// The sum of a step's losses, added up where they are computed and read once: on a GPU every
// read of a number is a wait for all that was put into its stream.
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
  // `loss`: one number, there.
  void Add(const torch::Tensor& loss);
  // After the last Add, and before Read: sets the sum out for the host. Does not wait.
  void Send();
  // As of the last Send. Waits until the device has come to it, and for nothing later.
  double Read();
  // What the last Read gave; where LibTorch computes at once, the sum so far.
  double value() const { return value_; }

 private:
  const ComputePlace place_;
  double value_ = 0;
  torch::Tensor total_, sent_;    // fp64: on the device, and pinned
  std::optional<c10::Event> at_;  // sent_ is there
};

}  // namespace spillway
