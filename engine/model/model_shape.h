// The shape of a model: its sizes, and every parameter's name and shape as in transformers, whether
// or not this build can train the model. Pure functions of values; no LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/model_description.h"

namespace spillway {

struct ModelShape {
  std::string model_type;  // as the config says; "" where it does not
  // The parameters are those of transformers' class, by name. Otherwise the family is not
  // known here, and they are a transformer's of these sizes, within a few per cent.
  bool exact = false;

  int64_t vocabulary = 0;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t key_value_heads = 0;
  int64_t head_size = 0;
  int64_t intermediate = 0;
  int64_t positions = 0;   // the longest sequence; 0: the config does not say
  bool gated_mlp = false;  // three matrices instead of two
  int64_t experts = 1;     // MLPs of a layer, of which a token passes so many:
  int64_t experts_used = 1;
  bool causal = true;  // ends in logits over the vocabulary
  bool tied = false;   // ... which the embedding's matrix makes

  // Units "embedding", "h.0" .. "h.N-1", and "head" or "pooler" with the loss.
  ModelDescription model;
  // Without the matrix of logits where it is not tied: transformers' AutoModel, and what
  // accelerate's estimate-memory counts.
  uint64_t base_parameters = 0;

  std::vector<std::string> notes;  // what was guessed, for people
};

// Rows of a chunk that the loss is computed in, by the vocabulary alone: at most 2^24 logits, so
// 32 MiB in bf16.
int64_t LossChunkRows(int64_t vocabulary);

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
