// The head of an encoder that predicts masked tokens, like transformers' *ForMaskedLM: a dense
// layer and a norm, and logits over the vocabulary with a bias.
#pragma once

#include <memory>
#include <vector>

#include "engine/families/transformer_config.h"
#include "engine/torch/model.h"

namespace spillway {

// Unit "transform": x [samples, T, hidden] -> N(act(dense(x))), of x's shape.
std::shared_ptr<const Unit> NewTransformUnit(std::shared_ptr<const TransformerConfig> config,
                                             const TransformerUnit& unit);

// The loss unit "head": cross-entropy of the masked tokens. On the CPU only their logits are
// computed. Predictions are right if they are the likeliest token, the first of several; the
// quality is the accuracy.
std::shared_ptr<const LossUnit> NewMaskedLoss(std::shared_ptr<const TransformerConfig> config,
                                              const TransformerUnit& unit,
                                              std::vector<BorrowedParameter> borrowed);

}  // namespace spillway
