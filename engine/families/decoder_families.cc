#include "engine/families/decoder_families.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/families/layer_keys.h"
#include "engine/families/rotary_keys.h"

namespace spillway {
namespace {

using nlohmann::json;

void ReadSizes(ConfigReader& reader, TransformerConfig& c) {
  RefuseOtherModels(reader);
  reader.Required({"hidden_size"}, kMaxWidth, &c.hidden);
  reader.Required({"vocab_size"}, kMaxVocabulary, &c.vocabulary);
  reader.Required({"num_hidden_layers"}, kMaxLayers, &c.layers);
  reader.Required({"num_attention_heads"}, kMaxWidth, &c.heads);
  reader.Integer({"max_position_embeddings"}, kMaxPositions, &c.positions);
  reader.Boolean({"tie_word_embeddings"}, &c.tied);
  c.embedding_width = c.hidden;
  c.key_value_heads = c.heads;
}

// Sets the layers with a sliding attention window.
void ReadWindows(ConfigReader& reader, TransformerConfig& c) {
  c.windows.assign(c.layers, 0);
  int64_t window = 4096;
  bool used = false;
  reader.Integer({"sliding_window"}, std::numeric_limits<int64_t>::max(), &window);
  if (c.model_type == "phi3") {
    if (reader.Has({"sliding_window"})) c.windows.assign(c.layers, window);
    return;
  }
  if (c.model_type == "mistral") {
    if (!reader.IsNull("sliding_window")) c.windows.assign(c.layers, window);
    return;
  }
  if (c.model_type != "qwen2" && c.model_type != "qwen3") return;
  reader.Boolean({"use_sliding_window"}, &used);
  if (reader.IsNull("sliding_window")) used = false;
  double full = 28;
  reader.Number({"max_window_layers"}, 0, kMaxLayers + 1.0, "a number of layers", &full);
  const json* types = reader.Find({"layer_types"});
  if (types != nullptr && (!types->is_array() || static_cast<int64_t>(types->size()) != c.layers)) {
    return reader.Refuse("layer_types", *types,
                         absl::StrCat("a type for each of ", c.layers, " layers"));
  }
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    bool slides = static_cast<double>(layer) >= full;
    if (types != nullptr) {
      const json& type = (*types)[layer];
      slides = type == json("sliding_attention");
      if (!slides && type != json("full_attention")) {
        return reader.Refuse("layer_types", type, "\"full_attention\" or \"sliding_attention\"");
      }
    }
    if (slides && used) c.windows[layer] = window;
  }
}

}  // namespace

void ReadGpt2(ConfigReader& reader, TransformerConfig& c) {
  RefuseOtherModels(reader);
  c.names = {.tokens = "transformer.wte.weight",
             .positions = "transformer.wpe.weight",
             .layer = "transformer.h.",
             .norm_1 = "ln_1",
             .query_key_value = "attn.c_attn",
             .attention_output = "attn.c_proj",
             .norm_2 = "ln_2",
             .up = "mlp.c_fc",
             .down = "mlp.c_proj",
             .final_norm = "transformer.ln_f",
             .logits = "lm_head.weight"};
  c.vocabulary = 50257;
  c.positions = 1024;
  c.hidden = 768;
  c.layers = c.heads = 12;
  reader.Integer({"vocab_size"}, kMaxVocabulary, &c.vocabulary);
  reader.Integer({"n_positions", "max_position_embeddings"}, kMaxPositions, &c.positions);
  reader.Integer({"n_embd", "hidden_size"}, kMaxWidth, &c.hidden);
  reader.Integer({"n_layer", "num_hidden_layers"}, kMaxLayers, &c.layers);
  reader.Integer({"n_head", "num_attention_heads"}, kMaxWidth, &c.heads);
  c.embedding_width = c.hidden;
  c.key_value_heads = c.heads;
  ReadHeadSize(reader, 0, c);
  c.intermediate = 4 * c.hidden;
  reader.Integer({"n_inner"}, kMaxInner, &c.intermediate);

  c.norm = TransformerConfig::Norm::kLayer;
  c.norm_epsilon = 1e-5;
  c.fused = TransformerConfig::Fused::kParts;
  c.conv1d = c.query_bias = c.output_bias = c.mlp_bias = true;
  c.init_by_depth = true;
  c.activation = Activation::kGeluTanh;
  ReadActivation(reader, {"activation_function"}, &c.activation);
  c.residual_dropout = c.embedding_dropout = c.attention_dropout = 0.1;
  reader.Probability({"resid_pdrop"}, &c.residual_dropout);
  reader.Probability({"embd_pdrop"}, &c.embedding_dropout);
  reader.Probability({"attn_pdrop"}, &c.attention_dropout);
  reader.Positive({"layer_norm_epsilon"}, 1, &c.norm_epsilon);
  reader.Number({"initializer_range"}, 0, 1000, "a number from 0 to 1000", &c.init_std);
  bool scaled = true;
  reader.Boolean({"scale_attn_weights"}, &scaled);
  if (!scaled) c.score_scale = 1;
  reader.Boolean({"scale_attn_by_inverse_layer_idx"}, &c.scale_by_layer);
  reader.Boolean({"reorder_and_upcast_attn"}, &c.fp32_scores);
  c.tied = true;
  reader.Boolean({"tie_word_embeddings"}, &c.tied);
  const json* context = reader.Find({"n_ctx"});
  if (context != nullptr && *context != json(c.positions)) {
    reader.Warn("n_ctx",
                absl::StrCat("n_ctx ", ConfigReader::Shown(*context), " is ignored; n_positions ",
                             c.positions, " is the longest sequence"));
  }
  ReadLastTokenClassifier(reader, std::nullopt, c);
}

void ReadLlama(ConfigReader& reader, TransformerConfig& c) {
  c.names = {.tokens = "model.embed_tokens.weight",
             .layer = "model.layers.",
             .norm_1 = "input_layernorm",
             .query = "self_attn.q_proj",
             .key = "self_attn.k_proj",
             .value = "self_attn.v_proj",
             .attention_output = "self_attn.o_proj",
             .norm_2 = "post_attention_layernorm",
             .gate = "mlp.gate_proj",
             .up = "mlp.up_proj",
             .down = "mlp.down_proj",
             .final_norm = "model.norm",
             .logits = "lm_head.weight"};
  const std::string& type = c.model_type;
  const bool qwen = type == "qwen2" || type == "qwen3", phi3 = type == "phi3";
  if (phi3) {
    c.names.query = c.names.key = c.names.value = c.names.gate = c.names.up = "";
    c.names.query_key_value = "self_attn.qkv_proj";
    c.names.gate_up = "mlp.gate_up_proj";
    c.fused = TransformerConfig::Fused::kParts;
    c.norm_epsilon = 1e-5;
  }
  c.positions = type == "llama"     ? 2048
                : type == "mistral" ? 131072
                : qwen              ? 32768
                : phi3              ? 4096
                                    : 8192;
  c.intermediate = type == "llama"     ? 11008
                   : type == "mistral" ? 14336
                   : qwen              ? 22016
                   : phi3              ? 8192
                                       : 24576;
  c.tied = type == "gemma";
  ReadSizes(reader, c);
  reader.Integer({"intermediate_size"}, kMaxInner, &c.intermediate);
  // transformers' defaults for a missing key.
  if (!reader.Has({"num_key_value_heads"}) && !reader.IsNull("num_key_value_heads")) {
    if (type == "mistral") c.key_value_heads = 8;
    if (qwen) c.key_value_heads = 32;
  }
  reader.Integer({"num_key_value_heads"}, kMaxWidth, &c.key_value_heads);
  if (reader.status().ok() && c.heads % c.key_value_heads != 0) {
    reader.Fail("num_key_value_heads", absl::StrCat("num_key_value_heads ", c.key_value_heads,
                                                    " does not divide ", c.heads, " heads"));
  }
  ReadHeadSize(reader, type == "qwen3" ? 128 : type == "gemma" ? 256 : 0, c);

  c.gated = true;
  ReadActivation(reader, {"hidden_act"}, &c.activation);
  reader.Positive({"rms_norm_eps"}, 1, &c.norm_epsilon);
  bool biases = false;
  if (type == "llama" || type == "qwen3" || type == "gemma") {
    reader.Boolean({"attention_bias"}, &biases);
  }
  c.query_bias = type == "qwen2" || biases;
  c.output_bias = biases;
  if (type == "llama") reader.Boolean({"mlp_bias"}, &c.mlp_bias);
  if (type == "qwen3") {
    c.names.query_norm = "self_attn.q_norm";
    c.names.key_norm = "self_attn.k_norm";
  }
  reader.Probability({"attention_dropout"}, &c.attention_dropout);
  if (phi3) {
    reader.Probability({"resid_pdrop"}, &c.residual_dropout);
    reader.Has({"embd_pdrop"});  // transformers' class does not apply it
  }
  reader.Number({"initializer_range"}, 0, 1000, "a number from 0 to 1000", &c.init_std);
  const auto padding = phi3 ? std::optional<int64_t>(32000) : std::nullopt;
  ReadPaddingToken(reader, padding, c);
  ReadLastTokenClassifier(reader, padding, c);
  ReadWindows(reader, c);
  ReadRotary(reader, {"rope_theta"},
             phi3 ? ConfigReader::Keys{"partial_rotary_factor"} : ConfigReader::Keys{}, 1, c);
}

namespace {

// transformers ignores these aliases of GPT-NeoX's keys beside its RoPE object.
void RefuseLoneAliases(ConfigReader& reader) {
  const auto inside = [&](const char* object, const char* key) {
    const nlohmann::json* found = reader.Find({object});
    return found != nullptr && found->is_object() && found->contains(key);
  };
  for (const auto& [own, other] : {std::pair("rotary_emb_base", "rope_theta"),
                                   std::pair("rotary_pct", "partial_rotary_factor")}) {
    if (reader.Has({own}) || !reader.Has({other})) continue;
    if (inside("rope_scaling", other) || inside("rope_parameters", other)) continue;
    reader.Unsupported(other, absl::StrCat(other, " says nothing to transformers without ", own,
                                           ", whose default counts: write ", own));
  }
}

}  // namespace

void ReadGptNeox(ConfigReader& reader, TransformerConfig& c) {
  c.names = {.tokens = "gpt_neox.embed_in.weight",
             .layer = "gpt_neox.layers.",
             .norm_1 = "input_layernorm",
             .query_key_value = "attention.query_key_value",
             .attention_output = "attention.dense",
             .norm_2 = "post_attention_layernorm",
             .up = "mlp.dense_h_to_4h",
             .down = "mlp.dense_4h_to_h",
             .final_norm = "gpt_neox.final_layer_norm",
             .logits = "embed_out.weight"};
  c.positions = 2048;
  c.intermediate = 24576;
  ReadSizes(reader, c);
  reader.Integer({"intermediate_size"}, kMaxInner, &c.intermediate);
  ReadHeadSize(reader, 0, c);
  c.norm = TransformerConfig::Norm::kLayer;
  c.norm_epsilon = 1e-5;
  reader.Positive({"layer_norm_eps"}, 1, &c.norm_epsilon);
  bool parallel = true, biases = true;
  reader.Boolean({"use_parallel_residual"}, &parallel);
  if (parallel) c.order = TransformerConfig::Order::kParallel;
  reader.Boolean({"attention_bias"}, &biases);
  c.query_bias = c.output_bias = biases;
  c.mlp_bias = true;
  c.fused = TransformerConfig::Fused::kByHead;
  c.activation = Activation::kGelu;
  ReadActivation(reader, {"hidden_act"}, &c.activation);
  reader.Probability({"attention_dropout"}, &c.attention_dropout);
  reader.Probability({"hidden_dropout"}, &c.residual_dropout);
  c.embedding_dropout = c.residual_dropout;
  reader.Number({"initializer_range"}, 0, 1000, "a number from 0 to 1000", &c.init_std);
  RefuseLoneAliases(reader);
  ReadRotary(reader, {"rotary_emb_base", "rope_theta"}, {"rotary_pct", "partial_rotary_factor"},
             0.25, c);
  ReadLastTokenClassifier(reader, std::nullopt, c);
}

void ReadOpt(ConfigReader& reader, TransformerConfig& c) {
  const std::string decoder = "model.decoder.";
  c.names = {.tokens = decoder + "embed_tokens.weight",
             .positions = decoder + "embed_positions.weight",
             .project_in = decoder + "project_in",
             .layer = decoder + "layers.",
             .norm_1 = "self_attn_layer_norm",
             .query = "self_attn.q_proj",
             .key = "self_attn.k_proj",
             .value = "self_attn.v_proj",
             .attention_output = "self_attn.out_proj",
             .norm_2 = "final_layer_norm",
             .up = "fc1",
             .down = "fc2",
             .final_norm = decoder + "final_layer_norm",
             .project_out = decoder + "project_out",
             .logits = "lm_head.weight"};
  c.positions = 2048;
  c.intermediate = 3072;
  c.tied = true;
  ReadSizes(reader, c);
  reader.Integer({"ffn_dim"}, kMaxInner, &c.intermediate);
  reader.Integer({"word_embed_proj_dim"}, kMaxWidth, &c.embedding_width);
  ReadHeadSize(reader, 0, c);
  c.position_offset = 2;  // fairseq reserved two rows for padding
  c.norm = TransformerConfig::Norm::kLayer;
  c.norm_epsilon = 1e-5;
  bool before = true, removed = false, biases = true;
  reader.Boolean({"do_layer_norm_before"}, &before);
  reader.Boolean({"_remove_final_layer_norm"}, &removed);
  reader.Boolean({"enable_bias"}, &biases);
  reader.Boolean({"layer_norm_elementwise_affine"}, &c.norm_affine);
  c.order = before ? TransformerConfig::Order::kPreNorm : TransformerConfig::Order::kPostNorm;
  c.final_norm = before && !removed;
  c.query_bias = c.output_bias = c.mlp_bias = biases;
  c.activation = Activation::kRelu;
  ReadActivation(reader, {"activation_function"}, &c.activation);
  c.residual_dropout = 0.1;
  reader.Probability({"dropout"}, &c.residual_dropout);
  reader.Probability({"attention_dropout"}, &c.attention_dropout);
  double layer_drop = 0;
  reader.Probability({"layerdrop"}, &layer_drop);
  if (layer_drop > 0) {
    reader.Unsupported("layerdrop", absl::StrCat("layerdrop is ", layer_drop,
                                                 ": leaving out layers is not supported; set it "
                                                 "to 0"));
  }
  reader.Number({"init_std"}, 0, 1000, "a number from 0 to 1000", &c.init_std);
  ReadPaddingToken(reader, 1, c);
}

}  // namespace spillway
