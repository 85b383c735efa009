#include "engine/layers/transformer_part.h"

#include "engine/layers/rms_norm.h"

namespace spillway {
using torch::Tensor;

TransformerPart::TransformerPart(std::shared_ptr<const TransformerConfig> config,
                                 const TransformerUnit& unit)
    : shared_(std::move(config)), config_(*shared_) {
  for (auto& pair : index_) pair = {-1, -1};
  for (const TransformerParameter& parameter : unit.parameters) {
    index_[static_cast<int>(parameter.role)][parameter.is_bias] = static_cast<int>(specs_.size());
    specs_.push_back(parameter);
  }
  // What is borrowed comes behind what is owned.
  if (unit.borrows_tokens) {
    index_[static_cast<int>(ParameterRole::kTokens)][0] = static_cast<int>(specs_.size());
  }
}

Tensor TransformerPart::Project(const UnitContext& context, const Parameters& p, ParameterRole role,
                                const Tensor& x) const {
  const Tensor weight = Weight(p, role);
  return context.Linear(x, config_.conv1d ? weight.t() : weight, Bias(p, role));
}

Tensor TransformerPart::Normalise(const Parameters& p, ParameterRole role, const Tensor& x) const {
  const Tensor weight = Weight(p, role);
  if (config_.norm == TransformerConfig::Norm::kRms)
    return RmsNorm(x, weight, config_.norm_epsilon);
  return torch::layer_norm(x, x.sizes().back(), weight, Bias(p, role), config_.norm_epsilon);
}

}  // namespace spillway
