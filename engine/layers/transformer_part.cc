#include "engine/layers/transformer_part.h"

#include <cmath>

#include "engine/layers/rms_norm.h"

namespace spillway {
namespace {

using torch::Tensor;

// transformers' T5PreTrainedModel, where `factor` is 1.
double DeviationByWidth(const TransformerParameter& parameter, const TransformerConfig& config) {
  switch (parameter.role) {
    case ParameterRole::kTokens:
    case ParameterRole::kLogits:
      return 1;
    case ParameterRole::kRelativeBias:
      return 1 / std::sqrt(static_cast<double>(config.hidden));
    case ParameterRole::kQuery:
    case ParameterRole::kCrossQuery:
      return 1 / std::sqrt(static_cast<double>(config.hidden * config.head_size));
    default:
      return 1 / std::sqrt(static_cast<double>(parameter.shape.back()));
  }
}

Init InitOf(const TransformerParameter& parameter, const TransformerConfig& config) {
  if (parameter.is_bias) return Init::Constant(0);
  if (parameter.frozen) return Init::Waves();
  const bool by_width = config.init_by_width;
  if (parameter.shape.size() == 1) return Init::Constant(by_width ? config.init_std : 1);  // a norm
  if (by_width) return Init::Normal(0, config.init_std * DeviationByWidth(parameter, config));
  // 2 n_layer projections add to the residual stream: "Language Models are Unsupervised Multitask
  // Learners", section 2.3.
  const bool residual =
      parameter.role == ParameterRole::kAttentionOutput || parameter.role == ParameterRole::kDown;
  const double shrink =
      config.init_by_depth && residual ? std::sqrt(2.0 * static_cast<double>(config.layers)) : 1;
  Init init = Init::Normal(0, config.init_std / shrink);
  if (parameter.role == ParameterRole::kTokens) init.zero_row = config.padding_token.value_or(-1);
  if (parameter.role == ParameterRole::kPositions && config.positions_skip_padding) {
    init.zero_row = config.position_offset - 1;
  }
  return init;
}

}  // namespace

TransformerPart::TransformerPart(std::shared_ptr<const TransformerConfig> config,
                                 const TransformerUnit& unit)
    : shared_(std::move(config)), config_(*shared_) {
  for (auto& pair : index_) pair = {-1, -1};
  for (const TransformerParameter& parameter : unit.parameters) {
    index_[static_cast<int>(parameter.role)][parameter.is_bias] = static_cast<int>(specs_.size());
    specs_.push_back({parameter.name, parameter.shape, InitOf(parameter, config_), parameter.frozen,
                      LinearFormOf(parameter, config_)});
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
