// The config of one transformer stack, read from a model's config.json. It describes decoders
// (GPT-2, Llama, Mistral, Qwen, GPT-NeoX, OPT), encoders (BERT, RoBERTa, DistilBERT), and
// encoder-decoders (T5, BART, Whisper), whose decoder's config holds the encoder's as `encoder`. A
// model's parameters, layers, initial values and shape are derived from it. Plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/families/activations.h"
#include "engine/families/classifier_config.h"
#include "engine/families/speech_config.h"
#include "engine/model/model_shape.h"

namespace spillway {

// Rotary position embeddings (RoPE), as transformers' modeling_rope_utils.py computes them.
struct RotaryConfig {
  enum class Scaling { kNone, kLinear, kDynamic, kLlama3, kYarn, kLong };

  // Number of leading elements of each head that RoPE rotates; 0 disables RoPE. If the number is
  // odd, one extra element is rotated, with the frequencies computed from that number.
  int64_t size = 0;
  double base = 10000;
  Scaling scaling = Scaling::kNone;
  double factor = 1;
  // The context length before scaling. kDynamic: max_position_embeddings; kLlama3, kYarn, kLong:
  // original_max_position_embeddings.
  int64_t positions = 0;
  double low_frequency_factor = 1, high_frequency_factor = 4;  // kLlama3
  double beta_fast = 32, beta_slow = 1;                        // kYarn
  double attention_factor = 1;  // kYarn, kLong: scales sines and cosines
  bool truncate = true;         // kYarn
  // kLong: [pair] factors that divide the frequencies, for sequences of up to `positions` tokens
  // and for longer ones.
  std::vector<double> short_factors = {}, long_factors = {};

  // Whether the rotation angle of a position depends on the sequence length.
  bool by_length() const { return scaling == Scaling::kDynamic || scaling == Scaling::kLong; }
  bool operator==(const RotaryConfig&) const = default;
};

// A family's names of its tensors. Names of a layer's tensors follow `layer`, the layer's number
// and a dot. Projections and norms are modules, to which ".weight" and ".bias" are added; the
// others are whole names. "": the model has no such tensor.
struct TransformerNames {
  std::string tokens, positions = {}, project_in = {};
  std::string token_types = {}, embedding_norm = {};
  std::string layer;
  std::string norm_1, query_key_value = {}, query = {}, key = {}, value = {};
  std::string attention_output, query_norm = {}, key_norm = {};
  std::string norm_2, gate_up = {}, gate = {}, up = {}, down;
  std::string final_norm = {}, project_out = {}, logits = {};
  // The layer before the logits of a masked language model, and the bias of those logits under both
  // of its names.
  std::string transform = {}, transform_norm = {}, logits_bias = {}, other_logits_bias = {};
  std::string pooler = {}, classifier = {};
  std::string cross_norm = {}, cross_query = {}, cross_key = {}, cross_value = {},
              cross_output = {};
  std::string relative_bias = {};
  std::string convolution_1 = {}, convolution_2 = {};

  bool operator==(const TransformerNames&) const = default;
};

// Large because one set of sizes and switches describes every family, and is read and written
// together.
struct TransformerConfig {
  enum class Norm { kLayer, kRms };
  // The order of norms N, attention A and MLP M in a layer. Cross-attention comes between A and M,
  // with the same residual connection and norm as these.
  enum class Order {
    kPreNorm,   // y = x + A(N(x)); y + M(N(y))
    kPostNorm,  // y = N(x + A(x)); N(y + M(y))
    kParallel,  // x + A(N(x)) + M(N(x))
  };
  // The layout of a single matrix for queries, keys and values.
  enum class Fused {
    kNo,      // three matrices
    kParts,   // all heads' queries, then keys, then values
    kByHead,  // head by head: query, key, value
  };

  std::string model_type;
  TransformerNames names;

  int64_t vocabulary = 0;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t key_value_heads = 0;
  int64_t head_size = 0;
  int64_t intermediate = 0;
  int64_t positions = 0;  // the longest sequence
  // Width of a token's embedding; if it differs from `hidden`, it is projected.
  int64_t embedding_width = 0;
  double embedding_scale = 1;  // multiplies a token's embedding, before positions are added
  // The embedding's norm precedes positions; otherwise it follows the sum.
  bool norm_before_positions = false;

  Order order = Order::kPreNorm;
  Norm norm = Norm::kRms;
  bool norm_affine = true;  // norms have weights (and kLayer biases)
  bool final_norm = true;
  // If true, the final norm is a unit of its own, followed by final_dropout; if false, it is part
  // of the head.
  bool norm_is_unit = false;
  double norm_epsilon = 1e-6;

  int64_t position_offset = 0;  // learned positions: rows of their matrix before the first position
  bool fixed_positions = false;  // positions are sines and cosines, and are frozen
  // RoBERTa: padding tokens have the position position_offset - 1, and other positions skip them.
  bool positions_skip_padding = false;
  RotaryConfig rotary;
  // T5's relative position bias, added to attention scores: the number of distance buckets, and the
  // distance from which on all keys share the last bucket. 0 buckets: no bias.
  int64_t relative_buckets = 0, relative_distance = 0;

  Fused fused = Fused::kNo;
  bool conv1d = false;  // matrices are [in, out], as transformers' Conv1D stores them
  bool query_bias = false, output_bias = false, mlp_bias = false;
  bool key_bias = true;  // false: keys have no bias even if queries and values do
  double score_scale = 1;
  bool scale_by_layer = false;  // score_scale is divided by the layer's number, from 1
  // False in encoders: every query attends to every key of its text.
  bool causal = true;
  bool fp32_scores = false;  // queries and keys are converted to fp32 before their product
  // [layer] Size of the attention window in keys, the query's own included; 0: unlimited.
  std::vector<int64_t> windows;
  // M(x) = down(act(gate(x)) * up(x)) if true, else down(act(up(x))). names.gate_up is one matrix,
  // the gate's rows before up's.
  bool gated = false;
  Activation activation = Activation::kSilu;
  bool tied = false;        // the logits' matrix is the token embedding
  double logits_scale = 1;  // multiplies the final hidden state before the logits
  // Label smoothing of the loss (CrossEntropySum). A run sets it: no config.json has it.
  double label_smoothing = 0;

  // Dropout probabilities in training. inner_dropout applies inside the MLP, before down.
  double embedding_dropout = 0, attention_dropout = 0, residual_dropout = 0, inner_dropout = 0;
  double final_dropout = 0;
  bool attention_output_dropout = true;  // residual_dropout applies to the attention's output, too
  // The token whose embedding row gets no gradient from the embedding; none: all rows get one.
  std::optional<int64_t> padding_token;

  // Number of segment types (such as the first and the second text of a pair), each with an
  // embedding that is added to its tokens'; 0: no segment embeddings.
  int64_t token_types = 0;

  // Set in models that classify: the head is a classifier in place of logits.
  std::optional<ClassifierConfig> classifier;
  // True in encoders that answer questions with a part of the text: in place of logits the head
  // scores each token as the first and as the last of the answer, classifier(drop(x)).
  bool finds_spans = false;
  double span_dropout = 0;  // drop
  // True in masked language models: the logits of the masked tokens are computed from
  // N(act(transform(x))).
  bool masked = false;
  Activation transform_activation = Activation::kGelu;

  // Set in encoders that read audio frames in place of tokens.
  std::optional<SpeechConfig> speech;

  // The encoder that this decoder attends to; null: there is none. If both read tokens, the encoder
  // owns the token embedding that they share.
  std::shared_ptr<const TransformerConfig> encoder;
  int64_t start_token = 0;  // encoder-decoders: the token before a target text
  int64_t end_token = -1;   // encoder-decoders: the token after a text; -1: none
  // Defaults for generation without a generation_config.json, from the family's class in
  // transformers: SamplingOptions::forced_last and source_no_repeat_ngram.
  int64_t forced_last = -1, source_no_repeat_ngram = 0;

  double init_std = 0.02;
  bool init_by_depth = false;  // projections onto the residual stream: init_std / sqrt(2 layers)
  // T5: init_std is a factor. Tokens and logits have the standard deviation init_std, other
  // matrices init_std / sqrt(input width), and queries are divided by sqrt(head_size) as well.
  bool init_by_width = false;

  // The longest sequence that may be trained on. It exceeds `positions` with dynamic RoPE scaling.
  int64_t longest_sequence() const;

  // Whether the encoder reads audio.
  bool hears() const { return encoder != nullptr && encoder->speech.has_value(); }
  // Compares an encoder by its address.
  bool operator==(const TransformerConfig&) const = default;
};

enum class ParameterRole {
  kTokens,
  kPositions,
  kTokenTypes,
  kEmbeddingNorm,
  kProjectIn,
  kNorm1,
  kQueryKeyValue,
  kQuery,
  kKey,
  kValue,
  kAttentionOutput,
  kQueryNorm,
  kKeyNorm,
  kNorm2,
  kGateUp,
  kGate,
  kUp,
  kDown,
  kFinalNorm,
  kProjectOut,
  kLogits,
  kPooler,
  kClassifier,
  kCrossNorm,
  kCrossQuery,
  kCrossKey,
  kCrossValue,
  kCrossOutput,
  kRelativeBias,
  kConvolution1,
  kConvolution2,
  kTransform,
  kTransformNorm,
  kLogitsBias,
};
inline constexpr int kParameterRoles = 34;

struct TransformerParameter : ParameterSpec {
  ParameterRole role;
  bool is_bias = false;
};

enum class TransformerUnitKind {
  kRelativeBias,
  kSpeechEmbedding,
  kEmbedding,
  kLayer,
  kNorm,
  kClassifier,
  kSpans,
  kTransform,
  kHead,
  kLoss,
};

struct TransformerUnit {
  TransformerUnitKind kind;
  std::string name;
  std::vector<TransformerParameter> parameters;  // in storage order
  int64_t layer = 0;
  bool in_encoder = false;  // part of config.encoder
  // reads the token embedding, the first parameter of the first embedding unit
  bool borrows_tokens = false;
};

// The units in the order in which they compute. One stack: "embedding", "h.0" .. "h.N-1", then
// "head", "transform" and "head", or "classifier" or "spans" and "loss" (without parameters). An
// encoder-decoder: both stacks' units with the prefixes "encoder." and "decoder.", among them
// "bias" before an embedding with relative positions and "norm" after the layers if norm_is_unit;
// then "head".
std::vector<TransformerUnit> UnitsOf(const TransformerConfig& config);

// The shape of the same model, for estimates, plans and weights.
ModelShape ShapeOf(const TransformerConfig& config);

}  // namespace spillway
