// The shape of a model: its sizes and every parameter's name and shape as in transformers, whether
// or not this build can train it. Pure functions of values; no LibTorch.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "engine/model/model_description.h"

namespace spillway {

struct ModelShape {
  std::string model_type;  // from the config; "" if it has none
  // The parameters are exactly those of transformers' class. Otherwise the family is unknown, and
  // they are a transformer's of these sizes, within a few per cent.
  bool exact = false;

  int64_t vocabulary = 0;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t key_value_heads = 0;
  int64_t head_size = 0;
  int64_t intermediate = 0;
  int64_t positions = 0;   // the longest sequence; 0: unknown
  bool gated_mlp = false;  // three matrices instead of two
  int64_t experts = 1;     // MLPs of a layer, and how many of them a token passes
  int64_t experts_used = 1;
  bool causal = true;  // a token attends to those before it alone
  // An encoder-decoder: about half of the layers are the encoder's.
  bool has_encoder = false;
  int64_t heard_positions = 0;  // encoder positions of an audio input; 0: no audio
  bool sees = false;            // the input is pictures
  // The module that scores labels, or tokens of answers; "": there is none.
  std::string classifier = "";
  bool labels_tokens = false;  // labels are of tokens, not of texts
  bool finds_spans = false;    // answers to questions, parts of the text
  bool masked = false;         // a masked language model
  bool tied = false;           // logits are computed with the token embedding
  // Other names that transformers has for the parameter `tied_to`: tied logits, shared embeddings.
  std::vector<std::string> tied_names = {};
  std::string tied_to = "";
  std::set<std::string> frozen = {};  // parameters that are never trained
  // Whether the model ends in logits over the vocabulary.
  bool has_logits() const { return (causal || masked) && classifier.empty(); }

  // The units: "embedding", "h.0" .. "h.N-1", and "head" or "pooler" with the loss.
  ModelDescription model;
  // The parameters of transformers' AutoModel, without an untied matrix of logits: accelerate's
  // estimate-memory counts these.
  uint64_t base_parameters = 0;

  std::vector<std::string> notes;  // assumptions about an unknown family, for people
};

// Rows of one chunk of the loss; depends on the vocabulary alone. At most 2^24 logits, 32 MiB in
// bf16; 2^25 for up to 256 rows, so that a text of 256 tokens is one chunk, whose gradient needs no
// fp32 sums, even with Llama 3's 128,256 tokens.
int64_t LossChunkRows(int64_t vocabulary);

// These functions fill shape.model.units; REQUIRES: all sizes of `shape` are set.
void DescribeBertUnits(int64_t token_types, ModelShape& shape);
// For unknown families: attention, MLP or experts, and two norms per layer.
void DescribeOtherUnits(ModelShape& shape);

}  // namespace spillway
