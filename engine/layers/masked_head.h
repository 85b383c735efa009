// What finds masked tokens in an encoder, as transformers' *ForMaskedLM have it: a dense layer and
// a norm, and logits over the vocabulary with a bias.
#pragma once

#include <memory>
#include <vector>

#include "engine/families/transformer_config.h"
#include "engine/torch/model.h"

namespace spillway {

// The unit "transform": x [samples, T, hidden] -> N(act(dense(x))), of x's shape.
std::shared_ptr<const Unit> NewTransformUnit(std::shared_ptr<const TransformerConfig> config,
                                             const TransformerUnit& unit);

// The loss unit "head": cross-entropy of the tokens that are to be found. On the CPU logits are
// computed of those alone. Judged is how many of a call's are the likeliest token, the first of
// several; the quality is the accuracy.
std::shared_ptr<const LossUnit> NewMaskedLoss(std::shared_ptr<const TransformerConfig> config,
                                              const TransformerUnit& unit,
                                              std::vector<BorrowedParameter> borrowed);

}  // namespace spillway
