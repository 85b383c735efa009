// The units of known families: names and shapes as in transformers
// (engine/model/model_shape.cc).
#pragma once

#include <string>

#include "engine/model/model_shape.h"

namespace spillway {

// What only some families have.
struct FamilyTraits {
  bool query_bias = false;   // queries, keys and values
  bool output_bias = false;  // the projection behind attention
  bool mlp_bias = false;
  bool head_norms = false;      // RMS norms of queries and keys
  int64_t token_types = 0;      // BERT
  int64_t embedding_width = 0;  // OPT: projected to the hidden size where another
  bool norm_affine = true;      // OPT
  bool final_norm = true;       // OPT
};

// Each fills shape.model.units; REQUIRES: all sizes of `shape` are set.
void DescribeGpt2Units(ModelShape& shape);
void DescribeLlamaUnits(const FamilyTraits& traits, ModelShape& shape);
void DescribeBertUnits(const FamilyTraits& traits, ModelShape& shape);
void DescribeNeoxUnits(const FamilyTraits& traits, ModelShape& shape);
void DescribeOptUnits(const FamilyTraits& traits, ModelShape& shape);
// Of no family: attention, MLP or experts and two norms a layer.
void DescribeOtherUnits(ModelShape& shape);

}  // namespace spillway
