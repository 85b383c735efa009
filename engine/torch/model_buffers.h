// The buffers of a model's units as tensors.
#pragma once

#include <torch/types.h>

#include <vector>

#include "absl/status/status.h"
#include "engine/model/state_buffer.h"
#include "engine/torch/model.h"

namespace spillway {

// Compute thread; may throw LibTorch's exceptions.
class ModelBuffers {
 public:
  // Has the values of their specs, in fp32 on `where`.
  ModelBuffers(const Model& model, const torch::Device& where);

  bool empty() const { return names_.empty(); }
  uint64_t bytes() const;
  // A unit's buffers in its order; changes to the tensors change the buffers.
  const std::vector<torch::Tensor>& of(int unit) const { return tensors_[unit]; }
  // Copies of the current values.
  std::vector<torch::Tensor> CopyOf(int unit) const;
  // Sets the values.
  void Set(int unit, const std::vector<torch::Tensor>& values);

  // All values, units in order.
  std::vector<StateBuffer> Values() const;
  // kInvalidArgument, naming them, if these are not the model's buffers.
  absl::Status SetValues(const std::vector<StateBuffer>& values);

 private:
  template <typename Visit>
  void VisitAll(Visit visit) const;

  std::vector<std::string> names_;                   // of all buffers
  std::vector<bool> whole_;                          // likewise
  std::vector<std::vector<torch::Tensor>> tensors_;  // [unit]; none for the last one
};

}  // namespace spillway
