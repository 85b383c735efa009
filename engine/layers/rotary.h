// Rotary position embeddings (arXiv 2104.09864) with the scalings of transformers.
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

// Of the positions [first, first + count) of a text, made where they are used, so that nothing
// waits for a device. Dynamic scaling goes by how long the text is then.
RotaryAngles AnglesOf(const RotaryConfig& config, int64_t first, int64_t count,
                      const torch::Device& where);

// Of texts that follow one another, each of its own positions from 0 on.
RotaryAngles AnglesOfTexts(const RotaryConfig& config, const std::vector<int64_t>& texts,
                           const torch::Device& where);

// x [samples, T, heads, head size]: in the first `size` elements of each head, pairs (i, i + size /
// 2) are turned by the angle of their position. In fp32, rounded once; backward turns back.
torch::Tensor Rotate(const torch::Tensor& x, const RotaryAngles& angles);

}  // namespace spillway
