// What units of a TransformerConfig's model have in common: where each parameter is among those of
// a forward, and how it is used.
#pragma once

#include <torch/types.h>

#include <array>
#include <memory>
#include <vector>

#include "engine/families/transformer_config.h"
#include "engine/torch/model.h"

namespace spillway {

class TransformerPart {
 public:
  using Parameters = std::vector<torch::Tensor>;

  // `config`: of the stack that the unit is in.
  TransformerPart(std::shared_ptr<const TransformerConfig> config, const TransformerUnit& unit);

 protected:
  // Undefined where the model has none. Tokens may be borrowed.
  torch::Tensor Weight(const Parameters& p, ParameterRole role) const { return At(p, role, 0); }
  torch::Tensor Bias(const Parameters& p, ParameterRole role) const { return At(p, role, 1); }
  bool Has(ParameterRole role) const { return Position(role) >= 0; }
  // Of its weight among a forward's parameters; -1: the model has none.
  int Position(ParameterRole role) const { return index_[static_cast<int>(role)][0]; }

  // x [..., in] -> [..., out], by the role's matrix and bias.
  torch::Tensor Project(const UnitContext& context, const Parameters& p, ParameterRole role,
                        const torch::Tensor& x) const;

  // By the config's kind of norm with the role's weight and bias; of x's shape.
  torch::Tensor Normalise(const Parameters& p, ParameterRole role, const torch::Tensor& x) const;

  const std::shared_ptr<const TransformerConfig> shared_;
  const TransformerConfig& config_;
  std::vector<ParameterSpec> specs_;

 private:
  torch::Tensor At(const Parameters& p, ParameterRole role, int bias) const {
    const int index = index_[static_cast<int>(role)][bias];
    return index < 0 ? torch::Tensor() : p[index];
  }

  std::array<std::array<int, 2>, kParameterRoles> index_;  // [role][weight, bias]; -1: none
};

}  // namespace spillway
