// The head of a model that classifies texts.
#pragma once

#include <memory>

#include "engine/families/transformer_config.h"
#include "engine/torch/model.h"

namespace spillway {

// Unit "classifier": [samples, T, D] -> scores [samples, labels], from the first position of an
// encoder and the last token of a decoder; [samples, T, labels] where tokens have labels. Batches
// are those of engine/torch/text_batch.h.
// REQUIRES: config->classifier.
std::shared_ptr<const Unit> NewClassifierUnit(std::shared_ptr<const TransformerConfig> config,
                                              const TransformerUnit& unit);

}  // namespace spillway
