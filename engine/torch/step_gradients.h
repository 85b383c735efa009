// The sums of a step's gradients, in memory of the swap engine.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "engine/model/model_description.h"
#include "engine/torch/tensor_views.h"
#include "swap/mover/swap_manager.h"

namespace spillway {

// Its methods put work into the current stream without waiting. Compute thread.
class StepGradients {
 public:
  // `description` outlives the object. Gradients have `dtype`, and are on `where`.
  StepGradients(const ModelDescription& description, torch::ScalarType dtype, torch::Device where);

  // Call before an op. Sums to which nothing was added yet are uninitialized.
  void Open(const OpBuffers& buffers);
  // Adds gradients for `views`; undefined ones are zero. Throws LibTorch's exceptions, also for a
  // third term of sums that are rounded.
  void Add(const std::vector<ParameterView>& views, const std::vector<torch::Tensor>& gradients);
  // Call after the op: the sums of the op's own unit are complete. Parameters without gradient, and
  // the gaps between parameters, become zero.
  void Complete(const OpBuffers& buffers);

 private:
  void FillGaps(int unit, char* sums, uint64_t bytes_each) const;

  const ModelDescription& description_;
  const torch::ScalarType dtype_;
  const torch::Device where_;
  std::vector<std::vector<int64_t>> terms_;  // [unit][parameter] terms in its sums in this step
};

}  // namespace spillway
