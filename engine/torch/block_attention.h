// Attention, causal or not, with dropout on its probabilities, fp32 scores or biases by distance,
// which torch's fused attention does not support on the CPU.
#pragma once

#include <torch/types.h>

#include "engine/torch/model.h"

namespace spillway {

struct AttentionOptions {
  int64_t heads = 1;
  int64_t key_value_heads = 1;  // for AttendToSeen: a divisor of `heads`
  bool causal = true;           // a query attends to no later key
  int64_t window = 0;           // keys per query, including its own; 0: all earlier ones
  // [samples, keys] bool: the keys that every query of their sample attends to, for example those
  // without padding; at least one each. Undefined: all. REQUIRES: not causal.
  torch::Tensor visible = {};
  // [heads, queries + keys - 1], of the queries' dtype, added to the scores: at d + queries - 1 for
  // a key d positions after its query. Differentiable. Undefined: none.
  torch::Tensor biases = {};
  double scale = 1;            // of the scores
  double dropout = 0;          // of the probabilities; off in evaluation
  int first_site = 0;          // first dropout site to use
  bool fp32_scores = false;    // queries and keys are converted before their product
  bool fp32_products = false;  // everything is computed in fp32, and rounded once at the end
};

// qkv [samples, T, 3D] (queries, keys, values; each split into heads) -> [samples, T, D].
//
// Works in blocks of heads and queries whose size depends on T alone; no memory of size T x T is
// kept after a block. Backward keeps only qkv and recomputes probabilities and masks with the same
// bits.
torch::Tensor AttendInBlocks(const UnitContext& context, const torch::Tensor& qkv,
                             const AttentionOptions& options);

// AttendInBlocks for queries [samples, T, heads, size], keys and values [samples, n, heads, size],
// of any strides, which backward keeps. REQUIRES: n is T if options.causal.
torch::Tensor AttendInBlocks(const UnitContext& context, const torch::Tensor& queries,
                             const torch::Tensor& keys, const torch::Tensor& values,
                             const AttentionOptions& options);

// Number of dropout sites that it uses for `length` queries and keys.
int AttentionSites(int64_t length, int64_t heads);

// The last T positions of one text attend to all its n positions: queries [T, heads * size], keys
// and values [n, key-value heads * size], rows of any stride -> [T, heads * size]. Biases, if any,
// are those of n queries and n keys. No dropout, not differentiable.
torch::Tensor AttendToSeen(const torch::Tensor& queries, const torch::Tensor& keys,
                           const torch::Tensor& values, const AttentionOptions& options);

}  // namespace spillway
