// The sums of a step's gradients, where the swap engine has put memory for them.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "engine/model/model_description.h"
#include "engine/torch/tensor_views.h"
#include "swap/mover/swap_manager.h"

namespace spillway {

// Its methods put work into the current stream and wait for nothing. Compute thread.
class StepGradients {
 public:
  // `description` outlives it. Gradients are of `dtype`, and lie at `where`.
  StepGradients(const ModelDescription& description, torch::ScalarType dtype, torch::Device where);

  // Before an op. Sums that nothing has been added to yet hold whatever was there before.
  void Open(const OpBuffers& buffers);
  // Adds what came out for `views`; undefined gradients are zero. Throws LibTorch's exceptions,
  // also for a third term of sums that are rounded.
  void Add(const std::vector<ParameterView>& views, const std::vector<torch::Tensor>& gradients);
  // After it: the sums of the op's own unit are whole. What no gradient has reached, and the gaps
  // between parameters, read as zero.
  void Complete(const OpBuffers& buffers);

 private:
  void FillGaps(int unit, char* sums, uint64_t bytes_each) const;

  const ModelDescription& description_;
  const torch::ScalarType dtype_;
  const torch::Device where_;
  std::vector<std::vector<int64_t>> terms_;  // [unit][parameter] In its sums, in this step.
};

}  // namespace spillway
