#include "engine/torch/value_flow.h"

#include "absl/strings/str_cat.h"

namespace spillway {

absl::StatusOr<ValueFlow> ValueFlow::Of(const Model& model) {
  ValueFlow flow;
  const int count = static_cast<int>(model.units.size());
  std::vector<bool> read(count, false);
  flow.kept_.assign(count, false);
  for (int unit = 0; unit < count; ++unit) {
    const Unit& one = *model.units[unit];
    flow.inputs_.push_back(one.input());
    flow.reads_.push_back(one.reads());
    if (flow.reads_before(unit)) read[unit - 1] = true;
    for (const int from : one.reads()) {
      if (from < 0 || from >= unit) {
        return absl::InvalidArgumentError(absl::StrCat("unit \"", one.name(),
                                                       "\" reads the output of unit ", from,
                                                       ", which does not come before it"));
      }
      read[from] = flow.kept_[from] = true;
    }
  }
  for (int unit = 0; unit + 1 < count; ++unit) {
    if (read[unit]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the output of unit \"", model.units[unit]->name(), "\" is read by no unit"));
  }
  // The loss has an entry too: it reads the last unit's output.
  flow.kept_.push_back(false);
  flow.inputs_.emplace_back();
  flow.reads_.emplace_back();
  return flow;
}

std::vector<torch::Tensor> KeptValues::Outputs(const std::vector<int>& units) const {
  std::vector<torch::Tensor> outputs;
  for (const int unit : units) outputs.push_back(values_.at(unit).output);
  return outputs;
}

void KeptValues::Add(const std::vector<int>& units, const std::vector<torch::Tensor>& gradients) {
  for (size_t i = 0; i < units.size(); ++i) {
    if (!gradients[i].defined()) continue;
    torch::Tensor& sum = values_.at(units[i]).gradient;
    if (sum.defined()) {
      sum.add_(gradients[i]);
    } else {
      sum = gradients[i].to(torch::kFloat32, /*non_blocking=*/false, /*copy=*/true);
    }
  }
}

torch::Tensor KeptValues::TakeGradient(int unit, const torch::Tensor& passed_on) {
  const Value value = values_.at(unit);
  values_.erase(unit);
  if (!value.gradient.defined()) {
    return passed_on.defined() ? passed_on : torch::zeros_like(value.output);
  }
  torch::Tensor sum = value.gradient;
  if (passed_on.defined()) sum.add_(passed_on);
  return sum.to(value.output.scalar_type());
}

uint64_t KeptValues::bytes() const {
  uint64_t bytes = 0;
  for (const auto& [unit, value] : values_) {
    if (!value.output.defined()) continue;
    bytes += value.output.nbytes() + value.output.numel() * sizeof(float);
  }
  return bytes;
}

}  // namespace spillway
