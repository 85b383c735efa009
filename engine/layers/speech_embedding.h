// The first unit of a speech encoder, which turns frames of a sound into hidden states.
#pragma once

#include <torch/types.h>

#include <memory>

#include "engine/families/transformer_config.h"
#include "engine/torch/model.h"

namespace spillway {

// Applies SpecAugment's masks to x [samples, bands, frames] in training: returns a copy, or x
// without masks. Drawn by (seed, step, sample, unit).
torch::Tensor MaskSpeech(const UnitContext& context, const torch::Tensor& x,
                         const SpeechConfig& config);

// The batch's inputs [samples, bands, frames] fp32 -> [samples, positions, D]: two convolutions,
// each with its activation, the second one with stride 2; positions are added. REQUIRES:
// config->speech.
std::shared_ptr<const Unit> NewSpeechEmbeddingUnit(std::shared_ptr<const TransformerConfig> config,
                                                   const TransformerUnit& unit);

}  // namespace spillway
