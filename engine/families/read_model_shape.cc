#include "engine/families/read_model_shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/families/config_reader.h"
#include "engine/families/model_config.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::json;
using Keys = ConfigReader::Keys;

// A bound far above any model and far below an overflow of byte counts.
constexpr int64_t kMostWidth = int64_t{1} << 20;
constexpr int64_t kMostCount = int64_t{1} << 28;
constexpr int64_t kMostLayers = 10000;
constexpr int64_t kMostExperts = 4096;

// Families' names of one value, ours first in messages.
const Keys kHidden = {"hidden_size", "n_embd", "d_model", "dim"};
const Keys kLayers = {"num_hidden_layers", "n_layer", "num_layers", "n_layers"};
const Keys kHeads = {"num_attention_heads", "n_head", "num_heads", "n_heads"};
const Keys kVocabulary = {"vocab_size", "n_vocab"};
const Keys kIntermediate = {"intermediate_size", "n_inner", "ffn_dim",       "d_ff",
                            "ffn_hidden_size",   "d_inner", "ffn_hidden_dim"};
const Keys kPositions = {"max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"};
const Keys kKeyValueHeads = {"num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv"};
const Keys kExperts = {"num_local_experts", "num_experts", "n_routed_experts"};
const Keys kExpertsUsed = {"num_experts_per_tok", "num_selected_experts", "moe_top_k"};

// Reads the sizes that every model has.
void ReadAnySizes(ConfigReader& reader, ModelShape& shape) {
  reader.Required(kHidden, kMostWidth, &shape.hidden);
  reader.Required(kLayers, kMostLayers, &shape.layers);
  reader.Required(kHeads, kMostWidth, &shape.heads);
  reader.Required(kVocabulary, kMostCount, &shape.vocabulary);
  shape.key_value_heads = shape.heads;
  shape.intermediate = 4 * shape.hidden;
  reader.Integer(kIntermediate, kMostWidth, &shape.intermediate);
  reader.Integer(kPositions, kMostCount, &shape.positions);
  if (!reader.status().ok()) return;
  shape.head_size = shape.hidden / shape.heads;
  if (!reader.Has({"head_dim"}) && shape.hidden % shape.heads != 0) {
    reader.Fail("", absl::StrCat("the hidden size ", shape.hidden, " is not divisible by ",
                                 shape.heads, " heads"));
  }
  reader.Integer({"head_dim"}, kMostWidth, &shape.head_size);
}

// Whether the model has another task than ParseModelConfig knows: then only its encoder counts.
bool IsBareBert(const JsonDocument& document, const std::string& pointer) {
  ConfigReader reader(document, pointer);
  const json* names = reader.Find({"architectures"});
  if (reader.Text("model_type") != "bert" || names == nullptr) {
    return reader.Text("model_type") == "bert";
  }
  return *names != json::array({"BertForSequenceClassification"}) &&
         *names != json::array({"BertForTokenClassification"}) &&
         *names != json::array({"BertForQuestionAnswering"}) &&
         *names != json::array({"BertForMaskedLM"});
}

void ReadBareBert(ConfigReader& reader, ModelShape& shape) {
  shape.exact = true;
  shape.causal = false;
  shape.positions = 512;
  ReadAnySizes(reader, shape);
  int64_t token_types = 2;
  reader.Integer({"type_vocab_size"}, kMostCount, &token_types);
  DescribeBertUnits(token_types, shape);
}

void ReadOther(ConfigReader& reader, ModelShape& shape) {
  ReadAnySizes(reader, shape);
  reader.Integer(kKeyValueHeads, kMostWidth, &shape.key_value_heads);
  const std::string activation = reader.Text("hidden_act") + reader.Text("activation_function") +
                                 reader.Text("hidden_activation");
  shape.gated_mlp = activation == "silu" || activation == "swish" || activation == "swiglu";
  reader.Integer(kExperts, kMostExperts, &shape.experts);
  reader.Integer(kExpertsUsed, kMostExperts, &shape.experts_used);
  shape.experts_used = std::min(shape.experts, shape.experts_used);
  if (shape.experts > 1) {
    reader.Integer({"moe_intermediate_size"}, kMostWidth, &shape.intermediate);
  }
  reader.Boolean({"tie_word_embeddings"}, &shape.tied);
  DescribeOtherUnits(shape);
  shape.notes.push_back(absl::StrCat(
      shape.model_type.empty() ? "there is no model_type"
                               : absl::StrCat("model_type \"", shape.model_type, "\" is not known"),
      ": the parameters are a transformer's of these sizes, an approximation (",
      shape.gated_mlp ? "gated " : "", "MLP of ", shape.intermediate,
      shape.experts > 1 ? absl::StrCat(" in ", shape.experts, " experts") : "",
      reader.Has(kIntermediate) ? ")" : ", 4 x the hidden size)"));
}

}  // namespace

absl::StatusOr<ModelShape> ReadModelShape(const JsonDocument& document,
                                          std::optional<ModelTask> task) {
  if (!document.value.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(document.file, ": not a JSON object"));
  }
  // Multimodal models have the language model's values in an object of their own.
  const auto text = document.value.find("text_config");
  const bool nested = text != document.value.end() && text->is_object();
  const std::string pointer = nested ? "/text_config" : "";
  ConfigReader reader(document, pointer, /*names_may_differ=*/true);
  ModelShape shape;
  const std::string type = reader.Text("model_type");
  if (IsKnownFamily(type) && (task || !IsBareBert(document, pointer))) {
    ASSIGN_OR_RETURN(ModelConfig config, ParseModelConfig(document, pointer, task));
    shape = std::move(config.shape);
    shape.notes = std::move(config.unsupported);
  } else {
    shape.model_type = type;
    (type == "bert" ? ReadBareBert : ReadOther)(reader, shape);
    RETURN_IF_ERROR(reader.status());
    const absl::Status laid_out = LayOutParameters(shape.model);
    if (!laid_out.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(document.file, ": ", laid_out.message()));
    }
  }
  if (nested) {
    shape.notes.insert(shape.notes.begin(),
                       "only text_config is counted: vision and audio parts are left out");
  }
  shape.base_parameters = shape.model.parameter_count();
  if (shape.has_logits() && !shape.tied) {
    shape.base_parameters -= shape.model.units.back().parameters.back().elements;
  }
  return shape;
}

}  // namespace spillway
