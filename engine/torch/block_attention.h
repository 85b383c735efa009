// Attention, causal or not, with dropout on its probabilities, fp32 scores or biases by distance:
// what torch's fused attention does not offer on the CPU.
#pragma once

#include <torch/types.h>

#include "engine/torch/model.h"

namespace spillway {

struct AttentionOptions {
  int64_t heads = 1;
  int64_t key_value_heads = 1;  // AttendToSeen: a divisor of `heads`
  bool causal = true;           // a query sees no key behind it
  int64_t window = 0;           // keys that a query sees, itself counted; 0: all before it
  // [samples, keys] bool: those that every query of their sample may see, such as those that are no
  // padding; at least one of each. Undefined: all are. REQUIRES: not causal.
  torch::Tensor visible = {};
  // [heads, queries + keys - 1], of the queries' dtype: what is added to the scores of a key that
  // is d behind its query, at d + queries - 1. Differentiable. Undefined: nothing is.
  torch::Tensor biases = {};
  double scale = 1;            // of the scores
  double dropout = 0;          // of the probabilities; off in evaluation
  int first_site = 0;          // dropout sites first_site.. are used
  bool fp32_scores = false;    // queries and keys are upcast before their product
  bool fp32_products = false;  // all of it is computed in fp32, and rounded once at its end
};

// qkv [samples, T, 3D] (queries, keys, values; each split into heads) -> [samples, T, D].
//
// Works in blocks of heads and queries whose size depends on T alone; nothing of
// size T x T outlives a block. Backward keeps qkv only and makes probabilities and
// masks again: the same bits.
torch::Tensor AttendInBlocks(const UnitContext& context, const torch::Tensor& qkv,
                             const AttentionOptions& options);

// The same of queries [samples, T, heads, size], keys and values [samples, n, heads, size], of any
// strides. Backward keeps these. REQUIRES: n is T where options.causal.
torch::Tensor AttendInBlocks(const UnitContext& context, const torch::Tensor& queries,
                             const torch::Tensor& keys, const torch::Tensor& values,
                             const AttentionOptions& options);

// How many dropout sites it uses for as many queries as keys.
int AttentionSites(int64_t length, int64_t heads);

// The last T positions of one text attend to all n of it: queries [T, heads * size], keys and
// values [n, key-value heads * size], rows of any stride -> [T, heads * size]. Biases, where there
// are some, are those of n queries and n keys. No dropout, not differentiated.
torch::Tensor AttendToSeen(const torch::Tensor& queries, const torch::Tensor& keys,
                           const torch::Tensor& values, const AttentionOptions& options);

}  // namespace spillway
