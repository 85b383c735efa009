// The shape of a model: its sizes, and every parameter's name and shape as in transformers, whether
// or not this build can train the model. Pure functions of values; no LibTorch.
#pragma once

#include <cstdint>
#include <set>
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
  // What is read goes through half of the layers or so, what is made of it through the others.
  bool has_encoder = false;
  int64_t heard_positions = 0;  // that it makes of a sound, where it hears one
  bool sees = false;            // pictures
  // The module that scores labels, where the model classifies what it reads or sees; "": it does
  // not.
  std::string classifier = "";
  bool labels_tokens = false;  // each token of them by itself
  bool masked = false;         // it finds tokens that are masked
  bool tied = false;           // logits are what the embedding's matrix makes
  // What transformers calls the parameter `tied_to` besides: tied logits, the embeddings of stacks.
  std::vector<std::string> tied_names = {};
  std::string tied_to = "";
  std::set<std::string> frozen = {};  // parameters that are not trained, whatever is
  bool has_logits() const { return causal || masked; }

  // Units "embedding", "h.0" .. "h.N-1", and "head" or "pooler" with the loss.
  ModelDescription model;
  // Without the matrix of logits where it is not tied: transformers' AutoModel, and what
  // accelerate's estimate-memory counts.
  uint64_t base_parameters = 0;

  std::vector<std::string> notes;  // what was guessed, for people
};

// Rows of a chunk that the loss is computed in, by the vocabulary alone: at most 2^24 logits, so
// 32 MiB in bf16; 2^25 for 256 rows and fewer, so that a text of 256 tokens is one chunk, whose
// gradient needs no sums in fp32, also with the 128,256 tokens of Llama 3.
int64_t LossChunkRows(int64_t vocabulary);

// Each fills shape.model.units; REQUIRES: all sizes of `shape` are set.
void DescribeBertUnits(int64_t token_types, ModelShape& shape);
// Of no family: attention, MLP or experts and two norms a layer.
void DescribeOtherUnits(ModelShape& shape);

}  // namespace spillway
