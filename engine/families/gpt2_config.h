// A Hugging Face GPT-2 config.json, checked: every key that changes the logits in
// transformers is honoured or refused, every bad value is named.
//
// Pure functions of values; no LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/strict_json.h"
#include "engine/model/model_shape.h"
#include "engine/numeric/dtype.h"
#include "nlohmann/json.hpp"

namespace spillway {

// What the MLP applies between its two projections. transformers spells some of
// them several ways (gelu_new, gelu_fast and gelu_pytorch_tanh are one function).
enum class Activation {
  kGelu,
  kGeluTanh,
  kQuickGelu,
  kGelu10,  // gelu clipped to [-10, 10]
  kRelu,
  kRelu2,
  kRelu6,
  kLeakyRelu,
  kSilu,
  kMish,
  kHardswish,
  kSigmoid,
  kTanh,
  kLaplace,
  kLinear,
};

struct Gpt2Config {
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_inner = 4 * 768;  // resolved: null in the file means 4 * n_embd
  Activation activation = Activation::kGeluTanh;
  double resid_pdrop = 0.1;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool scale_attn_weights = true;
  bool scale_attn_by_inverse_layer_idx = false;
  bool reorder_and_upcast_attn = false;
  bool tie_word_embeddings = true;

  // The file as it was read: an export keeps what the user wrote. Null when the
  // config was made in code.
  nlohmann::json original;
  // One line for each key that nothing here or in transformers' GPT-2 knows.
  std::vector<std::string> warnings;

  int64_t head_size() const { return n_embd / n_head; }
  // Its sizes and every parameter's name and shape: what weights, training and estimates go by.
  ModelShape Shape() const;
  // Of the whole model, a tied head counted once.
  int64_t parameter_count() const;
};

// InvalidArgument: "FILE:LINE: KEY is VALUE; expected ...", or the model type and the
// supported ones.
absl::StatusOr<Gpt2Config> ParseGpt2Config(const JsonDocument& document);

// Reads and parses `dir`/config.json. NotFound when there is none.
absl::StatusOr<Gpt2Config> ReadGpt2Config(const std::string& dir);

// The config.json of an export whose tensors are in `dtype`: the original keys, or
// all of ours when there are none, and what transformers needs to load the
// directory as a GPT2LMHeadModel.
nlohmann::json Gpt2ConfigJson(const Gpt2Config& config, DType dtype);

}  // namespace spillway
