// Biases of attention scores by the distance between key and query, in buckets, as in T5.
#pragma once

#include <memory>

#include "engine/families/transformer_config.h"
#include "engine/torch/model.h"

namespace spillway {

// The bucket of each distance (a key's position minus its query's), from 1 - `queries` to `keys` -
// 1: [queries + keys - 1] int64. If not `causal`, half of the buckets are for keys after the query.
// Half of the rest are for one distance each, the others for ranges that grow up to `farthest`, the
// last for all greater distances.
torch::Tensor BucketsOfDistances(int64_t queries, int64_t keys, int64_t buckets, int64_t farthest,
                                 bool causal);

// The unit of a stack's biases: x [samples, T, ...], of which only T matters, ->
// AttentionOptions::biases of T queries and as many keys. `input`: the batch's field that is x.
std::shared_ptr<const Unit> NewRelativeBiasUnit(std::shared_ptr<const TransformerConfig> config,
                                                const TransformerUnit& unit, std::string input);

}  // namespace spillway
