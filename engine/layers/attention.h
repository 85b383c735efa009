// Attention on heads, causal or not: grouped keys and values, windows, dropout and biases. Which of
// the ways there are computes it depends on shapes and options alone.
#pragma once

#include <torch/types.h>

#include "engine/torch/block_attention.h"

namespace spillway {

// Queries [samples, T, heads, size], keys and values [samples, n, key-value heads, size], whose
// number divides that of the heads; of any strides. n is T where a text attends to itself.
struct AttentionHeads {
  torch::Tensor queries, keys, values;
  // All three side by side [samples, T, 3 * heads * size], where a model makes them so and there
  // are no biases.
  torch::Tensor fused = {};
};

// -> [samples, T, heads * size]. A query sees itself and all before it in its text, or the last
// options.window of them; where options.causal is not set, all of options.visible.
torch::Tensor Attend(const UnitContext& context, const AttentionHeads& heads,
                     const AttentionOptions& options);

}  // namespace spillway
