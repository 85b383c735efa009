#include "engine/families/seq2seq_families.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/families/layer_keys.h"

namespace spillway {
namespace {

using nlohmann::json;

TransformerNames T5Names(const TransformerConfig& c, bool decoder) {
  const std::string stack = decoder ? "decoder." : "encoder.";
  const std::string mlp = decoder ? "layer.2." : "layer.1.";
  return {.tokens = "shared.weight",
          .layer = stack + "block.",
          .norm_1 = "layer.0.layer_norm",
          .query = "layer.0.SelfAttention.q",
          .key = "layer.0.SelfAttention.k",
          .value = "layer.0.SelfAttention.v",
          .attention_output = "layer.0.SelfAttention.o",
          .norm_2 = mlp + "layer_norm",
          .gate = mlp + "DenseReluDense.wi_0",
          .up = mlp + (c.gated ? "DenseReluDense.wi_1" : "DenseReluDense.wi"),
          .down = mlp + "DenseReluDense.wo",
          .final_norm = stack + "final_layer_norm",
          .logits = "lm_head.weight",
          .cross_norm = "layer.1.layer_norm",
          .cross_query = "layer.1.EncDecAttention.q",
          .cross_key = "layer.1.EncDecAttention.k",
          .cross_value = "layer.1.EncDecAttention.v",
          .cross_output = "layer.1.EncDecAttention.o",
          .relative_bias = stack + "block.0.layer.0.SelfAttention.relative_attention_bias.weight"};
}

TransformerNames BartNames(const TransformerConfig& c, bool decoder) {
  const std::string stack = decoder ? "model.decoder." : "model.encoder.";
  return {.tokens = "model.shared.weight",
          .positions = stack + "embed_positions.weight",
          .embedding_norm = c.model_type == "blenderbot" ? "" : stack + "layernorm_embedding",
          .layer = stack + "layers.",
          .norm_1 = "self_attn_layer_norm",
          .query = "self_attn.q_proj",
          .key = "self_attn.k_proj",
          .value = "self_attn.v_proj",
          .attention_output = "self_attn.out_proj",
          .norm_2 = "final_layer_norm",
          .up = "fc1",
          .down = "fc2",
          .final_norm = stack + "layer_norm",
          .logits = "lm_head.weight",
          .cross_norm = "encoder_attn_layer_norm",
          .cross_query = "encoder_attn.q_proj",
          .cross_key = "encoder_attn.k_proj",
          .cross_value = "encoder_attn.v_proj",
          .cross_output = "encoder_attn.out_proj"};
}

TransformerNames WhisperNames(bool decoder) {
  const std::string stack = decoder ? "model.decoder." : "model.encoder.";
  TransformerConfig like;
  like.model_type = "whisper";
  TransformerNames names = BartNames(like, decoder);
  names.tokens = "model.decoder.embed_tokens.weight";
  names.embedding_norm = "";
  names.logits = "proj_out.weight";
  names.convolution_1 = stack + "conv1";
  names.convolution_2 = stack + "conv2";
  return names;
}

// "gelu", or "gated-gelu", which is another gelu.
void ReadFeedForward(ConfigReader& reader, TransformerConfig& c) {
  const char* key = "feed_forward_proj";
  const json* found = reader.Find({key});
  const bool mt5 = c.model_type == "mt5";
  c.gated = mt5;
  c.activation = mt5 ? Activation::kGeluTanh : Activation::kRelu;
  if (found == nullptr) return;
  std::string name = found->is_string() ? found->get<std::string>() : "";
  c.gated = absl::StartsWith(name, "gated-");
  name = name == "gated-gelu" ? "gelu_new" : std::string(absl::StripPrefix(name, "gated-"));
  const auto known = ActivationNames().find(name);
  if (known == ActivationNames().end()) {
    return reader.Refuse(key, *found,
                         "\"relu\", \"gated-gelu\", or another activation with or without gated-");
  }
  c.activation = known->second;
}

// Reads the dropouts of BART and its derivatives.
void ReadDropouts(ConfigReader& reader, TransformerConfig& c) {
  reader.Probability({"dropout"}, &c.residual_dropout);
  reader.Probability({"attention_dropout"}, &c.attention_dropout);
  reader.Probability({"activation_dropout"}, &c.inner_dropout);
  c.embedding_dropout = c.residual_dropout;
  for (const char* key : {"encoder_layerdrop", "decoder_layerdrop"}) {
    double layer_drop = 0;
    reader.Probability({key}, &layer_drop);
    if (layer_drop == 0) continue;
    reader.Unsupported(key, absl::StrCat(key, " is ", layer_drop,
                                         ": leaving out layers is not supported; set it to 0"));
  }
}

void ReadSpeechMask(ConfigReader& reader, const char* share, const char* length, const char* least,
                    SpeechMask& mask) {
  reader.Probability({share}, &mask.share);
  reader.Integer({length}, kMaxPositions, &mask.length);
  double at_least = static_cast<double>(mask.least);
  reader.Number({least}, 0, 1e6, "a number of masks", &at_least);
  mask.least = static_cast<int64_t>(at_least);
}

// Reads the tokens that end a text (the first of several) and start the decoder's.
void ReadEnds(ConfigReader& reader, std::optional<int64_t> end, std::optional<int64_t> start,
              TransformerConfig& c) {
  const auto read = [&](const char* key, std::optional<int64_t> fallback) {
    const json* found = reader.Find({key});
    if (found != nullptr && found->is_array() && !found->empty()) found = &found->front();
    if (found == nullptr && !reader.IsNull(key)) return fallback;
    if (found == nullptr) return std::optional<int64_t>();
    if (!found->is_number_integer() || *found < 0 || *found >= c.vocabulary) {
      reader.Refuse(key, *found, absl::StrCat("a token from 0 to ", c.vocabulary - 1));
      return fallback;
    }
    return std::optional(found->get<int64_t>());
  };
  c.end_token = read("eos_token_id", end).value_or(-1);
  const std::optional<int64_t> first = read("decoder_start_token_id", start);
  if (first) {
    c.start_token = *first;
  } else {
    reader.Fail("decoder_start_token_id",
                "decoder_start_token_id is missing: the decoder has no token to begin with");
  }
}

}  // namespace

void ReadT5(ConfigReader& reader, TransformerConfig& c) {
  RefuseOtherModels(reader, /*has_encoder=*/true);
  const bool mt5 = c.model_type == "mt5";
  c.vocabulary = mt5 ? 250112 : 32128;
  c.hidden = 512;
  c.head_size = 64;
  c.intermediate = mt5 ? 1024 : 2048;
  c.layers = mt5 ? 8 : 6;
  c.heads = mt5 ? 6 : 8;
  c.relative_buckets = 32;
  c.relative_distance = 128;
  c.positions = kMaxPositions;  // relative positions are unlimited
  reader.Integer({"vocab_size"}, kMaxVocabulary, &c.vocabulary);
  reader.Integer({"d_model", "hidden_size"}, kMaxWidth, &c.hidden);
  reader.Integer({"d_kv", "head_dim"}, kMaxWidth, &c.head_size);
  reader.Integer({"d_ff"}, kMaxInner, &c.intermediate);
  reader.Integer({"num_layers", "num_hidden_layers"}, kMaxLayers, &c.layers);
  reader.Integer({"num_heads", "num_attention_heads"}, kMaxWidth, &c.heads);
  reader.Integer({"relative_attention_num_buckets"}, kMaxWidth, &c.relative_buckets);
  reader.Integer({"relative_attention_max_distance"}, kMaxPositions, &c.relative_distance);
  if (c.relative_buckets < 4 || c.relative_distance <= c.relative_buckets / 2) {
    reader.Fail("relative_attention_num_buckets",
                absl::StrCat("relative_attention_num_buckets ", c.relative_buckets,
                             " and relative_attention_max_distance ", c.relative_distance,
                             ": expected at least 4 buckets, and a distance above half of them"));
  }
  c.embedding_width = c.hidden;
  c.key_value_heads = c.heads;
  reader.Positive({"layer_norm_epsilon"}, 1, &c.norm_epsilon);
  c.norm_is_unit = true;
  ReadFeedForward(reader, c);
  reader.Has({"dense_act_fn"});  // made from feed_forward_proj
  reader.Has({"is_gated_act"});
  reader.Has({"n_positions"});
  c.residual_dropout = 0.1;
  reader.Probability({"dropout_rate"}, &c.residual_dropout);
  c.embedding_dropout = c.attention_dropout = c.inner_dropout = c.final_dropout =
      c.residual_dropout;
  double other = 0;  // of another head
  reader.Probability({"classifier_dropout"}, &other);
  // transformers 5 writes that logits are tied whether or not they are. It ties unscaled logits if
  // the file has no matrix for them, which a config without the key implies (ReadModelConfig).
  // mT5's logits are never scaled.
  bool tied = true, scaled = !mt5;
  reader.Boolean({"tie_word_embeddings"}, &tied);
  reader.Boolean({"scale_decoder_outputs"}, &scaled);
  c.tied = tied && (mt5 || scaled || !reader.Has({"tie_word_embeddings"}));
  if (c.tied && scaled) c.logits_scale = 1 / std::sqrt(static_cast<double>(c.hidden));
  c.init_std = 1;
  c.init_by_width = true;
  reader.Number({"initializer_factor"}, 0, 1000, "a number from 0 to 1000", &c.init_std);
  // In transformers the padding token's embedding row is like any other.
  TransformerConfig padded = c;
  ReadPaddingToken(reader, 0, padded);
  ReadEnds(reader, 1, padded.padding_token, c);

  TransformerConfig encoder = c;
  encoder.names = T5Names(c, /*decoder=*/false);
  encoder.causal = false;
  c.names = T5Names(c, /*decoder=*/true);
  reader.Integer({"num_decoder_layers"}, kMaxLayers, &c.layers);
  c.encoder = std::make_shared<const TransformerConfig>(std::move(encoder));
}

void ReadBart(ConfigReader& reader, TransformerConfig& c) {
  RefuseOtherModels(reader, /*has_encoder=*/true);
  const bool bart = c.model_type == "bart", large = c.model_type == "blenderbot";
  c.vocabulary = large ? 8008 : 50265;
  c.positions = bart ? 1024 : large ? 128 : 512;
  c.hidden = bart ? 1024 : large ? 2560 : 512;
  reader.Integer({"vocab_size"}, kMaxVocabulary, &c.vocabulary);
  reader.Integer({"max_position_embeddings"}, kMaxPositions, &c.positions);
  reader.Integer({"d_model", "hidden_size"}, kMaxWidth, &c.hidden);
  c.position_offset = bart ? 2 : 0;  // fairseq reserved two rows for padding
  c.embedding_width = c.hidden;
  c.order = large ? TransformerConfig::Order::kPreNorm : TransformerConfig::Order::kPostNorm;
  c.norm = TransformerConfig::Norm::kLayer;
  c.norm_epsilon = 1e-5;
  c.norm_is_unit = true;
  c.final_norm = large;
  c.query_bias = c.output_bias = c.mlp_bias = true;
  c.activation = Activation::kGelu;
  ReadActivation(reader, {"activation_function"}, &c.activation);
  c.residual_dropout = 0.1;
  ReadDropouts(reader, c);
  bool scales = false;
  reader.Boolean({"scale_embedding"}, &scales);
  if (scales) c.embedding_scale = std::sqrt(static_cast<double>(c.hidden));
  c.tied = true;
  reader.Boolean({"tie_word_embeddings"}, &c.tied);
  if (!c.tied) {
    // transformers 5 then gives each stack its own token embedding.
    reader.Unsupported("tie_word_embeddings",
                       "tie_word_embeddings is false: of this family logits are made by the "
                       "tokens' matrix");
  }
  reader.Number({"init_std"}, 0, 1000, "a number from 0 to 1000", &c.init_std);
  ReadPaddingToken(reader, bart ? 1 : 0, c);
  ReadEnds(reader, 2, bart ? 2 : 1, c);
  int64_t forced = 2;
  reader.Integer({"forced_eos_token_id"}, kMaxVocabulary, &forced);
  c.forced_last = reader.IsNull("forced_eos_token_id") ? -1 : forced;
  c.source_no_repeat_ngram = large ? 3 : 0;
  reader.Integer({"encoder_no_repeat_ngram_size"}, kMaxPositions, &c.source_no_repeat_ngram);
  // Older files have these, but the class decides.
  for (const char* key :
       {"add_bias_logits", "add_final_layer_norm", "classif_dropout", "classifier_dropout",
        "do_blenderbot_90_layernorm", "extra_pos_embeddings", "force_bos_token_to_be_generated",
        "layernorm_variant", "normalize_before", "normalize_embedding", "num_hidden_layers",
        "static_position_embeddings"}) {
    reader.Has({key});
  }

  const auto read_stack = [&](const char* layers, const char* heads, const char* inner,
                              TransformerConfig& stack) {
    reader.Integer({layers}, kMaxLayers, &stack.layers);
    reader.Integer({heads}, kMaxWidth, &stack.heads);
    reader.Integer({inner}, kMaxInner, &stack.intermediate);
    stack.key_value_heads = stack.heads;
    ReadHeadSize(reader, 0, stack);
  };
  c.heads = large ? 32 : 16;
  c.intermediate = bart ? 4096 : large ? 10240 : 2048;
  TransformerConfig encoder = c;
  encoder.names = BartNames(c, /*decoder=*/false);
  encoder.causal = false;
  encoder.layers = bart ? 12 : large ? 2 : 8;
  c.names = BartNames(c, /*decoder=*/true);
  c.layers = bart ? 12 : large ? 24 : 8;
  c.norm_before_positions = c.model_type == "blenderbot-small";
  read_stack("encoder_layers", "encoder_attention_heads", "encoder_ffn_dim", encoder);
  read_stack("decoder_layers", "decoder_attention_heads", "decoder_ffn_dim", c);
  c.encoder = std::make_shared<const TransformerConfig>(std::move(encoder));
}

void ReadWhisper(ConfigReader& reader, TransformerConfig& c) {
  RefuseOtherModels(reader, /*has_encoder=*/true);
  c.vocabulary = 51865;
  c.hidden = 384;
  c.positions = 448;
  reader.Integer({"vocab_size"}, kMaxVocabulary, &c.vocabulary);
  reader.Integer({"d_model", "hidden_size"}, kMaxWidth, &c.hidden);
  c.embedding_width = c.hidden;
  c.order = TransformerConfig::Order::kPreNorm;
  c.norm = TransformerConfig::Norm::kLayer;
  c.norm_epsilon = 1e-5;
  c.norm_is_unit = true;
  c.query_bias = c.output_bias = c.mlp_bias = true;
  c.key_bias = false;
  c.activation = Activation::kGelu;
  ReadActivation(reader, {"activation_function"}, &c.activation);
  ReadDropouts(reader, c);
  c.tied = true;
  reader.Boolean({"tie_word_embeddings"}, &c.tied);
  if (!c.tied) {
    reader.Unsupported("tie_word_embeddings",
                       "tie_word_embeddings is false: of this family logits are made by the "
                       "tokens' matrix");
  }
  reader.Number({"init_std"}, 0, 1000, "a number from 0 to 1000", &c.init_std);
  ReadPaddingToken(reader, 50256, c);
  ReadEnds(reader, 50256, 50257, c);
  // Keys of other heads, of generation (generation_config.json has those), of word timestamps,
  // which are not supported, and keys that transformers' class ignores.
  for (const char* key : {"classifier_proj_size", "use_weighted_layer_sum", "forced_decoder_ids",
                          "suppress_tokens", "begin_suppress_tokens", "median_filter_width",
                          "num_hidden_layers", "max_length", "scale_embedding"}) {
    reader.Has({key});
  }

  SpeechConfig speech;
  reader.Integer({"num_mel_bins"}, kMaxWidth, &speech.bands);
  speech.frames_mask = {0.05, 10, 2};
  speech.bands_mask = {0, 10, 0};
  ReadSpeechMask(reader, "mask_time_prob", "mask_time_length", "mask_time_min_masks",
                 speech.frames_mask);
  ReadSpeechMask(reader, "mask_feature_prob", "mask_feature_length", "mask_feature_min_masks",
                 speech.bands_mask);
  bool masks = false;
  reader.Boolean({"apply_spec_augment"}, &masks);
  if (!masks) speech.frames_mask.share = speech.bands_mask.share = 0;

  const auto read_stack = [&](const char* layers, const char* heads, const char* inner,
                              const char* positions, TransformerConfig& stack) {
    stack.layers = 4;
    stack.heads = 6;
    stack.intermediate = 1536;
    reader.Integer({layers}, kMaxLayers, &stack.layers);
    reader.Integer({heads}, kMaxWidth, &stack.heads);
    reader.Integer({inner}, kMaxInner, &stack.intermediate);
    reader.Integer({positions}, kMaxPositions, &stack.positions);
    stack.key_value_heads = stack.heads;
    ReadHeadSize(reader, 0, stack);
  };
  TransformerConfig encoder = c;
  encoder.names = WhisperNames(/*decoder=*/false);
  encoder.causal = false;
  encoder.positions = 1500;
  encoder.fixed_positions = true;
  encoder.speech = speech;
  read_stack("encoder_layers", "encoder_attention_heads", "encoder_ffn_dim", "max_source_positions",
             encoder);
  if (encoder.positions < 2) {
    reader.Fail("max_source_positions", "max_source_positions is 1: a sound has more");
  }
  c.names = WhisperNames(/*decoder=*/true);
  read_stack("decoder_layers", "decoder_attention_heads", "decoder_ffn_dim", "max_target_positions",
             c);
  c.encoder = std::make_shared<const TransformerConfig>(std::move(encoder));
}

}  // namespace spillway
