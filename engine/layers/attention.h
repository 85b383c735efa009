// Attention on heads, causal or not: grouped keys and values, windows, dropout and biases. The
// implementation is chosen by shapes and options alone.
#pragma once

#include <torch/types.h>

#include "engine/torch/block_attention.h"

namespace spillway {

// Queries [samples, T, heads, size], keys and values [samples, n, key-value heads, size], whose
// number divides that of the heads; any strides. n is T if a text attends to itself.
struct AttentionHeads {
  torch::Tensor queries, keys, values;
  // All three as [samples, T, 3 * heads * size], if the model computes them so and has no biases.
  torch::Tensor fused = {};
};

// -> [samples, T, heads * size]. A query attends to itself and all earlier positions in its text,
// or to the last options.window of them; without options.causal, to all of options.visible.
torch::Tensor Attend(const UnitContext& context, const AttentionHeads& heads,
                     const AttentionOptions& options);

}  // namespace spillway
