// Causal self-attention with dropout on its probabilities, or with fp32 scores:
// what torch's fused attention does not offer on the CPU.
#pragma once

#include <torch/types.h>

#include "engine/torch/model.h"

namespace spillway {

struct AttentionOptions {
  int64_t heads = 1;
  double scale = 1;          // of the scores
  double dropout = 0;        // of the probabilities; off in evaluation
  int first_site = 0;        // dropout sites first_site.. are used
  bool fp32_scores = false;  // queries and keys are upcast before their product
};

// qkv [samples, T, 3D] (queries, keys, values; each split into heads) -> [samples, T, D].
//
// Works in blocks of heads and queries whose size depends on T alone; nothing of
// size T x T outlives a block. Backward keeps qkv only and makes probabilities and
// masks again: the same bits.
torch::Tensor CausalAttention(const UnitContext& context, const torch::Tensor& qkv,
                              const AttentionOptions& options);

// The last T positions of one text attend to all n of it: queries [T, D], keys and values
// [n, D], rows of any stride -> [T, D]. No dropout, not differentiated.
torch::Tensor AttendToSeen(const torch::Tensor& queries, const torch::Tensor& keys,
                           const torch::Tensor& values, const AttentionOptions& options);

}  // namespace spillway
