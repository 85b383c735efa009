// Who reads whose output. A unit whose only reader is the next one passes its output on, as an
// activation checkpoint that moves like any other. An output that later units read too is kept on
// the device until its own unit's backward, and what they make of its gradient is summed.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/torch/model.h"

namespace spillway {

// Of a model; plain values.
class ValueFlow {
 public:
  // kInvalidArgument names a unit that reads what is not there, or whose output nobody reads.
  static absl::StatusOr<ValueFlow> Of(const Model& model);

  // Whether units behind the next one read the unit's output.
  bool kept(int unit) const { return kept_[unit]; }
  // Whether the unit's x is the output of the one before; otherwise it is the field input(unit),
  // or of the first unit the batch's inputs where that is "".
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
  // Ends the unit's value, whose gradient is what was added and `passed_on`, the next unit's:
  // rounded once. Undefined tensors are zero; so is the result where all are.
  torch::Tensor TakeGradient(int unit, const torch::Tensor& passed_on);
  // What they and their gradients take, at most.
  uint64_t bytes() const;

 private:
  struct Value {
    torch::Tensor output;
    torch::Tensor gradient;  // the sum so far
  };
  std::map<int, Value> values_;
};

}  // namespace spillway
