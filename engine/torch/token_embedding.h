// Token and position embeddings in one step.
#pragma once

#include <torch/types.h>

#include <optional>

namespace spillway {

// ids [samples, T] int64; tokens [V, D], positions [P, D] (one dtype, T <= P; optional) ->
// tokens[ids] + positions[:T], [samples, T, D]. `padding`: an id whose row gets no gradient.
// Gradients of a token that occurs often are summed in fp32 in the order of its occurrences and
// rounded once (torch sums in bf16), so bits do not depend on threads. The gradient of tokens is
// sparse on the CPU, with rows where a token occurs.
torch::Tensor TokenEmbedding(const torch::Tensor& ids, const torch::Tensor& tokens,
                             const std::optional<torch::Tensor>& positions = {},
                             std::optional<int64_t> padding = {});

}  // namespace spillway
