// The first unit of an encoder that hears: frames of a sound become hidden states.
#pragma once

#include <torch/types.h>

#include <memory>

#include "engine/families/transformer_config.h"
#include "engine/torch/model.h"

namespace spillway {

// Silences what SpecAugment would of x [samples, bands, frames], in training: a copy, or x where
// nothing is. Drawn by (seed, step, sample, unit).
torch::Tensor MaskSpeech(const UnitContext& context, const torch::Tensor& x,
                         const SpeechConfig& config);

// The batch's inputs [samples, bands, frames] fp32 -> [samples, positions, D]: both convolutions,
// each with its activation, the second one in steps of two frames; positions are added. REQUIRES:
// config->speech.
std::shared_ptr<const Unit> NewSpeechEmbeddingUnit(std::shared_ptr<const TransformerConfig> config,
                                                   const TransformerUnit& unit);

}  // namespace spillway
