// The shape of a model from its config.json alone: every parameter's name and shape, whether
// or not this build can train the model. Pure functions of values; no LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/strict_json.h"
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

// gpt2, llama, mistral, qwen2, qwen3, gemma, bert, gpt_neox and opt exactly; of any other
// config with hidden size, layers, heads and vocabulary an approximation.
// kInvalidArgument, "FILE:LINE: ...", names the key that is missing or makes no sense.
absl::StatusOr<ModelShape> ReadModelShape(const JsonDocument& document);

}  // namespace spillway
