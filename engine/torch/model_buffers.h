// The buffers of a model's units as LibTorch sees them.
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
  // Of their specs' values, in fp32 on `where`.
  ModelBuffers(const Model& model, const torch::Device& where);

  bool empty() const { return names_.empty(); }
  uint64_t bytes() const;
  // Of a unit, in the order in which it names them; what is done to them is done to all.
  const std::vector<torch::Tensor>& of(int unit) const { return tensors_[unit]; }
  // The same as they are now.
  std::vector<torch::Tensor> CopyOf(int unit) const;
  // Makes them these.
  void Set(int unit, const std::vector<torch::Tensor>& values);

  // Units in order.
  std::vector<StateBuffer> Values() const;
  // kInvalidArgument where these are not the model's, which are named.
  absl::Status SetValues(const std::vector<StateBuffer>& values);

 private:
  template <typename Visit>
  void VisitAll(Visit visit) const;

  std::vector<std::string> names_;                   // of all
  std::vector<bool> whole_;                          // likewise
  std::vector<std::vector<torch::Tensor>> tensors_;  // [unit]; none of the last
};

}  // namespace spillway
