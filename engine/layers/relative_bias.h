// Biases of attention scores by how far a key is from its query, in buckets of distances, as T5 has
// them.
#pragma once

#include <memory>

#include "engine/families/transformer_config.h"
#include "engine/torch/model.h"

namespace spillway {

// Which of `buckets` each distance is in, a key's position less its query's, from 1 - `queries` to
// `keys` - 1: [queries + keys - 1] int64. Where a query sees what is behind it (not `causal`) half
// of them are for that. Half of the rest are of one distance each, the others of ranges that grow
// up to `farthest`, the last for all beyond.
torch::Tensor BucketsOfDistances(int64_t queries, int64_t keys, int64_t buckets, int64_t farthest,
                                 bool causal);

// The unit of a stack's biases: x [samples, T, ...], of which T counts, -> AttentionOptions::biases
// of T queries and as many keys. `input`: the field that x is.
std::shared_ptr<const Unit> NewRelativeBiasUnit(std::shared_ptr<const TransformerConfig> config,
                                                const TransformerUnit& unit, std::string input);

}  // namespace spillway
