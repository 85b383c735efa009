// Rotary position embeddings (arXiv 2104.09864) with transformers' scalings.
#pragma once

#include <torch/types.h>

#include <vector>

#include "engine/families/transformer_config.h"

namespace spillway {

// Sines and cosines of the angles of positions: [positions, size / 2], or [samples, positions,
// size / 2], fp32.
struct RotaryAngles {
  torch::Tensor cosines, sines;
};

// Angles of the positions [first, first + count) of a text, computed on the device, so that nothing
// waits for it. Dynamic scaling depends on the text's length so far.
RotaryAngles AnglesOf(const RotaryConfig& config, int64_t first, int64_t count,
                      const torch::Device& where);

// Angles of consecutive texts, each with positions from 0 on.
RotaryAngles AnglesOfTexts(const RotaryConfig& config, const std::vector<int64_t>& texts,
                           const torch::Device& where);

// x [samples, T, heads, head size]: rotates pairs (i, i + size / 2) in the first `size` elements of
// each head by the angle of their position. In fp32, rounded once; backward rotates back.
torch::Tensor Rotate(const torch::Tensor& x, const RotaryAngles& angles);

}  // namespace spillway
