// The readers of each unit's output. If only the next unit reads it, it is passed on as an
// activation checkpoint that can be moved. An output that later units also read is kept on the
// device until its own unit's backward, which gets the sum of the readers' gradients.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/torch/model.h"

namespace spillway {

// For one model; plain values.
class ValueFlow {
 public:
  // kInvalidArgument names a unit that reads a missing value, or whose output no unit reads.
  static absl::StatusOr<ValueFlow> Of(const Model& model);

  // Whether units after the next one read the unit's output.
  bool kept(int unit) const { return kept_[unit]; }
  // Whether the unit's x is the previous unit's output; otherwise it is the field input(unit), or
  // for the first unit with "" the batch's inputs.
  bool reads_before(int unit) const { return unit > 0 && inputs_[unit].empty(); }
  const std::string& input(int unit) const { return inputs_[unit]; }
  // The units whose outputs it reads besides x.
  const std::vector<int>& reads(int unit) const { return reads_[unit]; }

 private:
  std::vector<bool> kept_;
  std::vector<std::string> inputs_;
  std::vector<std::vector<int>> reads_;
};

// The outputs of one micro-batch that are kept, by unit.
class KeptValues {
 public:
  void Keep(int unit, const torch::Tensor& output) { values_[unit].output = output; }
  // REQUIRES: they are kept.
  std::vector<torch::Tensor> Outputs(const std::vector<int>& units) const;
  // Adds to the gradients of these units' outputs, in fp32. REQUIRES: readers come in reverse
  // order.
  void Add(const std::vector<int>& units, const std::vector<torch::Tensor>& gradients);
  // Removes the unit's value and returns its gradient: the sum of the added ones and `passed_on`,
  // the next unit's, rounded once. Undefined tensors are zero; so is the result if all are.
  torch::Tensor TakeGradient(int unit, const torch::Tensor& passed_on);
  // Largest size of the values and their gradients.
  uint64_t bytes() const;

 private:
  struct Value {
    torch::Tensor output;
    torch::Tensor gradient;  // the sum so far
  };
  std::map<int, Value> values_;
};

}  // namespace spillway
