// The loss unit of a stack that gives tokens: logits over the vocabulary, and their cross-entropy.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/layers/transformer_part.h"
#include "engine/torch/model.h"

namespace spillway {

class LanguageHead : public LossUnit, protected TransformerPart {
 public:
  LanguageHead(std::shared_ptr<const TransformerConfig> config, const TransformerUnit& unit,
               std::vector<BorrowedParameter> borrowed)
      : TransformerPart(std::move(config), unit), borrowed_(std::move(borrowed)) {}

  std::string name() const override { return "head"; }
  std::vector<ParameterSpec> parameters() const override { return specs_; }
  std::vector<BorrowedParameter> borrowed() const override { return borrowed_; }
  int64_t ChunkRows() const override;

  // x [rows, hidden], labels [rows] int64.
  torch::Tensor LossSum(const UnitContext& context, const Parameters& p, const torch::Tensor& x,
                        const torch::Tensor& labels) const override;
  torch::Tensor Logits(const UnitContext& context, const Parameters& p,
                       const torch::Tensor& x) const override;

 private:
  // What the matrix, own or borrowed, is multiplied by: normalised, where no unit of its own did
  // so, and as wide as the matrix.
  torch::Tensor Final(const UnitContext& context, const Parameters& p,
                      const torch::Tensor& x) const;

  const std::vector<BorrowedParameter> borrowed_;
};

}  // namespace spillway
