// A stack of a transformer's layers as a value: what the config.json of a decoder-only language
// model (GPT-2, Llama, Mistral, Qwen, GPT-NeoX, OPT), of an encoder that classifies texts or their
// tokens or finds masked ones (BERT, RoBERTa, DistilBERT) or of an encoder and a decoder that
// attends to what it makes of a text (T5) means; that encoder may hear sound in place of tokens
// (Whisper). Sizes, parameters, weights, training, generation and estimates go by this.
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

  // Elements of a head that are turned, from its first on; 0: none are. Of an odd number one more
  // is, at the lengths of waves that the number itself gives.
  int64_t size = 0;
  double base = 10000;
  Scaling scaling = Scaling::kNone;
  double factor = 1;
  // kDynamic: max_position_embeddings; kLlama3, kYarn, kLong: the original ones.
  int64_t positions = 0;
  double low_frequency_factor = 1, high_frequency_factor = 4;  // kLlama3
  double beta_fast = 32, beta_slow = 1;                        // kYarn
  double attention_factor = 1;                                 // kYarn, kLong: of sines and cosines
  bool truncate = true;                                        // kYarn
  // kLong: what each pair's wavelength is multiplied by, in texts of up to `positions` tokens and
  // in longer ones.
  std::vector<double> short_factors = {}, long_factors = {};

  // The angles of a position depend on how long its text is.
  bool by_length() const { return scaling == Scaling::kDynamic || scaling == Scaling::kLong; }
  bool operator==(const RotaryConfig&) const = default;
};

// What a family calls its tensors. A layer's follow `layer`, its number and a dot; a projection's
// and a norm's end in .weight and .bias. "": the model has none.
struct TransformerNames {
  std::string tokens, positions = {}, project_in = {};
  std::string token_types = {}, embedding_norm = {};
  std::string layer;
  std::string norm_1, query_key_value = {}, query = {}, key = {}, value = {};
  std::string attention_output, query_norm = {}, key_norm = {};
  std::string norm_2, gate_up = {}, gate = {}, up = {}, down;
  std::string final_norm = {}, project_out = {}, logits = {};  // the last with its .weight
  // What comes before logits of masked tokens, and is added to them (whole, and its other name).
  std::string transform = {}, transform_norm = {}, logits_bias = {}, other_logits_bias = {};
  std::string pooler = {}, classifier = {};
  std::string cross_norm = {}, cross_query = {}, cross_key = {}, cross_value = {},
              cross_output = {};
  std::string relative_bias = {};  // whole
  std::string convolution_1 = {}, convolution_2 = {};

  bool operator==(const TransformerNames&) const = default;
};

// Large because every family is described by one set of sizes and switches, read and written
// together.
struct TransformerConfig {
  enum class Norm { kLayer, kRms };
  // What a layer adds to its input, with A attention, M the MLP and N the norms. Attention to an
  // encoder's output comes between the two, as they do.
  enum class Order {
    kPreNorm,   // y = x + A(N(x)); y + M(N(y))
    kPostNorm,  // y = N(x + A(x)); N(y + M(y))
    kParallel,  // x + A(N(x)) + M(N(x))
  };
  // How one matrix for queries, keys and values has them side by side.
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
  int64_t positions = 0;               // the longest sequence
  int64_t embedding_width = 0;         // of a token's row; projected where it is not `hidden`
  double embedding_scale = 1;          // of a token's row, before its position's is added
  bool norm_before_positions = false;  // the embedding's norm, otherwise of all of it

  Order order = Order::kPreNorm;
  Norm norm = Norm::kRms;
  bool norm_affine = true;  // norms have weights (and kLayer biases)
  bool final_norm = true;
  // It is a unit of its own, with final_dropout behind it; otherwise the head's.
  bool norm_is_unit = false;
  double norm_epsilon = 1e-6;

  int64_t position_offset = 0;   // learned positions: rows of the matrix before the first one's
  bool fixed_positions = false;  // ... sines and cosines to begin with, and never trained
  // ... of which a padding token's is the last, and no other token's position counts it (RoBERTa).
  bool positions_skip_padding = false;
  RotaryConfig rotary;
  // What is added to scores, by how far a key is from its query (T5): so many distances, the far
  // ones up to the farthest in common; 0: nothing is.
  int64_t relative_buckets = 0, relative_distance = 0;

  Fused fused = Fused::kNo;
  bool conv1d = false;  // matrices are [in, out], as transformers' Conv1D has them
  bool query_bias = false, output_bias = false, mlp_bias = false;
  bool key_bias = true;  // where queries and values have one
  double score_scale = 1;
  bool scale_by_layer = false;  // ... over the layer's number, from 1
  // Of an encoder every query sees every key of its text.
  bool causal = true;
  bool fp32_scores = false;      // queries and keys are upcast before their product
  std::vector<int64_t> windows;  // [layer] keys that a query sees, itself counted; 0: all before
  // M(x) = down(act(gate(x)) * up(x)), else down(act(up(x))). The rows of names.gate_up are the
  // gate's, then up's.
  bool gated = false;
  Activation activation = Activation::kSilu;
  bool tied = false;        // the matrix of logits is the tokens'
  double logits_scale = 1;  // of what it multiplies
  // CrossEntropySum's, of the loss: for a run to say, as no config.json does.
  double label_smoothing = 0;

  // Probabilities, in training. inner_dropout: of the MLP, before down.
  double embedding_dropout = 0, attention_dropout = 0, residual_dropout = 0, inner_dropout = 0;
  double final_dropout = 0;
  bool attention_output_dropout = true;  // residual_dropout is of what attention adds, too
  // Whose row no gradient reaches through the embedding; none: all.
  std::optional<int64_t> padding_token;

  // How many kinds of texts, such as the first and the second of a pair, have a row that is added
  // to each token's; 0: none have.
  int64_t token_types = 0;

  // What stands in the place of logits over the vocabulary, in an encoder.
  std::optional<ClassifierConfig> classifier;
  // Logits are an encoder's, of tokens that it sees masked: those of N(act(transform(x))).
  bool masked = false;
  Activation transform_activation = Activation::kGelu;

  // Of an encoder: what it hears in place of tokens.
  std::optional<SpeechConfig> speech;

  // The stack whose output this one's layers attend to; null: there is none. It has the tokens'
  // matrix of both, where it reads some.
  std::shared_ptr<const TransformerConfig> encoder;
  int64_t start_token = 0;  // then a text begins with
  int64_t end_token = -1;   // and ends with; -1: with none
  // What texts are made with where there is no generation_config.json, as the family's class has
  // it: SamplingOptions::forced_last and source_no_repeat_ngram.
  int64_t forced_last = -1, source_no_repeat_ngram = 0;

  double init_std = 0.02;
  bool init_by_depth = false;  // that of what adds to the residual stream over sqrt(2 layers)
  // init_std is a factor: of 1 for tokens and logits, of the root of what else goes into a matrix
  // (T5, whose queries are scaled so, too).
  bool init_by_width = false;

  // The longest sequence that may be trained on: more than `positions` where RoPE stretches.
  int64_t longest_sequence() const;

  // The text is made from sound.
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
  kTransform,
  kHead,
  kLoss,
};

struct TransformerUnit {
  TransformerUnitKind kind;
  std::string name;
  std::vector<TransformerParameter> parameters;  // in the order in which they are kept
  int64_t layer = 0;
  bool in_encoder = false;      // of config.encoder
  bool borrows_tokens = false;  // the first parameter of the first embedding
};

// In the order in which they compute. Of one stack "embedding", "h.0" .. "h.N-1", then "head",
// "transform" and "head", or "classifier" and "loss", which has no parameters. Of two each has its
// names behind "encoder." and "decoder.", with "bias" before the embedding where distances have one
// and "norm" behind the layers where that is a unit; then "head".
std::vector<TransformerUnit> UnitsOf(const TransformerConfig& config);

// The same for estimates, plans and weights.
ModelShape ShapeOf(const TransformerConfig& config);

}  // namespace spillway
