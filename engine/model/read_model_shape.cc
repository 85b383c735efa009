#include "engine/model/read_model_shape.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::json;
using Names = std::vector<const char*>;

// Far above any model, far below what could overflow a byte count.
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxCount = int64_t{1} << 28;
constexpr int64_t kMaxLayers = 10000;
constexpr int64_t kMaxExperts = 4096;

// The names that families use for one thing, ours first in messages.
const Names kHidden = {"hidden_size", "n_embd", "d_model", "dim"};
const Names kLayers = {"num_hidden_layers", "n_layer", "num_layers", "n_layers"};
const Names kHeads = {"num_attention_heads", "n_head", "num_heads", "n_heads"};
const Names kVocabulary = {"vocab_size", "n_vocab"};
const Names kIntermediate = {"intermediate_size", "n_inner", "ffn_dim",       "d_ff",
                             "ffn_hidden_size",   "d_inner", "ffn_hidden_dim"};
const Names kPositions = {"max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"};
const Names kKeyValueHeads = {"num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv"};
const Names kExperts = {"num_local_experts", "num_experts", "n_routed_experts"};
const Names kExpertsUsed = {"num_experts_per_tok", "num_selected_experts", "moe_top_k"};

// Reads values of one object; the first error counts. null is as good as missing.
class ShapeReader {
 public:
  ShapeReader(const JsonDocument& document, const json& object, std::string pointer)
      : document_(document), object_(object), pointer_(std::move(pointer)) {}

  absl::Status status() const { return status_; }

  int64_t Integer(const Names& names, int64_t high, std::optional<int64_t> fallback) {
    for (const char* name : names) {
      const json* value = Find(name);
      if (value == nullptr) continue;
      const bool fits = value->is_number_integer() &&
                        (!value->is_number_unsigned() ||
                         value->get<uint64_t>() <= std::numeric_limits<int64_t>::max());
      if (fits && value->get<int64_t>() >= 1 && value->get<int64_t>() <= high) {
        return value->get<int64_t>();
      }
      Fail(name,
           absl::StrCat(name, " is ", Shown(*value), "; expected an integer from 1 to ", high));
      return 1;
    }
    if (!fallback) {
      Fail("", absl::StrCat("there is no ", absl::StrJoin(names, ", nor "),
                            "; a model's shape needs hidden size, layers, heads and vocabulary"));
    }
    return fallback.value_or(1);
  }
  bool Boolean(const char* name, bool fallback) {
    const json* value = Find(name);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) {
      Fail(name, absl::StrCat(name, " is ", Shown(*value), "; expected true or false"));
      return fallback;
    }
    return value->get<bool>();
  }
  std::string Text(const char* name) {
    const json* value = Find(name);
    return value != nullptr && value->is_string() ? value->get<std::string>() : "";
  }
  bool Has(const char* name) const { return Find(name) != nullptr; }
  bool HasAny(const Names& names) const {
    return std::any_of(names.begin(), names.end(), [&](const char* n) { return Has(n); });
  }
  void Fail(absl::string_view name, const std::string& message) {
    const std::string at = name.empty() ? pointer_ : JsonPointerTo(pointer_, name);
    status_.Update(absl::InvalidArgumentError(absl::StrCat(document_.Where(at), ": ", message)));
  }

 private:
  const json* Find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  static std::string Shown(const json& value) {
    const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    return text.size() <= 80 ? text : absl::StrCat(text.substr(0, 77), "...");
  }

  const JsonDocument& document_;
  const json& object_;
  const std::string pointer_;
  absl::Status status_;
};

// What every family has. `intermediate`: where the config does not say.
void ReadSizes(ShapeReader& reader, ModelShape& shape) {
  shape.hidden = reader.Integer(kHidden, kMaxWidth, {});
  shape.layers = reader.Integer(kLayers, kMaxLayers, {});
  shape.heads = reader.Integer(kHeads, kMaxWidth, {});
  shape.vocabulary = reader.Integer(kVocabulary, kMaxCount, {});
  shape.key_value_heads = shape.heads;
  shape.intermediate = reader.Integer(kIntermediate, kMaxWidth, 4 * shape.hidden);
  shape.positions = reader.Integer(kPositions, kMaxCount, 0);
}

void ReadHeadSize(ShapeReader& reader, std::optional<int64_t> fallback, ModelShape& shape) {
  if (!fallback && !reader.Has("head_dim") && shape.hidden % shape.heads != 0) {
    reader.Fail("", absl::StrCat("the hidden size ", shape.hidden, " is not divisible by ",
                                 shape.heads, " heads"));
  }
  shape.head_size =
      reader.Integer({"head_dim"}, kMaxWidth, fallback.value_or(shape.hidden / shape.heads));
}

// --- Families -------------------------------------------------------------------

void ReadGpt2(ShapeReader& reader, ModelShape& shape) {
  // transformers' defaults are GPT-2 small's.
  shape.hidden = reader.Integer({"n_embd", "hidden_size"}, kMaxWidth, 768);
  shape.layers = reader.Integer({"n_layer", "num_hidden_layers"}, kMaxLayers, 12);
  shape.heads = reader.Integer({"n_head", "num_attention_heads"}, kMaxWidth, 12);
  shape.vocabulary = reader.Integer({"vocab_size"}, kMaxCount, 50257);
  shape.positions = reader.Integer({"n_positions", "max_position_embeddings"}, kMaxCount, 1024);
  shape.intermediate = reader.Integer({"n_inner"}, kMaxWidth, 4 * shape.hidden);
  shape.key_value_heads = shape.heads;
  shape.tied = reader.Boolean("tie_word_embeddings", true);
  ReadHeadSize(reader, {}, shape);
  DescribeGpt2Units(shape);
}

void ReadLlamaLike(ShapeReader& reader, ModelShape& shape) {
  ReadSizes(reader, shape);
  const std::string& type = shape.model_type;
  FamilyTraits traits;
  if (!reader.HasAny(kKeyValueHeads) && type != "llama") {
    shape.notes.push_back("num_key_value_heads is missing: taken as the attention heads");
  }
  shape.key_value_heads = reader.Integer(kKeyValueHeads, kMaxWidth, shape.heads);
  if (!reader.HasAny(kIntermediate)) {
    shape.notes.push_back("intermediate_size is missing: taken as 4 x the hidden size");
  }
  std::optional<int64_t> head_size;
  if (type == "qwen3") head_size = 128;
  if (type == "gemma") head_size = 256;
  ReadHeadSize(reader, head_size, shape);
  traits.query_bias = type == "qwen2" || reader.Boolean("attention_bias", false);
  traits.output_bias = type != "qwen2" && traits.query_bias;
  traits.mlp_bias = type == "llama" && reader.Boolean("mlp_bias", false);
  traits.head_norms = type == "qwen3";
  shape.gated_mlp = true;
  shape.tied = reader.Boolean("tie_word_embeddings", type == "gemma");
  DescribeLlamaUnits(traits, shape);
}

void ReadBert(ShapeReader& reader, ModelShape& shape) {
  ReadSizes(reader, shape);
  shape.positions = reader.Integer(kPositions, kMaxCount, 512);
  FamilyTraits traits;
  traits.token_types = reader.Integer({"type_vocab_size"}, kMaxCount, 2);
  shape.causal = false;
  ReadHeadSize(reader, {}, shape);
  DescribeBertUnits(traits, shape);
}

void ReadNeox(ShapeReader& reader, ModelShape& shape) {
  ReadSizes(reader, shape);
  FamilyTraits traits;
  traits.query_bias = traits.output_bias = reader.Boolean("attention_bias", true);
  shape.tied = reader.Boolean("tie_word_embeddings", false);
  ReadHeadSize(reader, {}, shape);
  DescribeNeoxUnits(traits, shape);
}

void ReadOpt(ShapeReader& reader, ModelShape& shape) {
  ReadSizes(reader, shape);
  shape.positions = reader.Integer(kPositions, kMaxCount, 2048);
  FamilyTraits traits;
  traits.embedding_width = reader.Integer({"word_embed_proj_dim"}, kMaxWidth, shape.hidden);
  traits.query_bias = traits.mlp_bias = reader.Boolean("enable_bias", true);
  traits.norm_affine = reader.Boolean("layer_norm_elementwise_affine", true);
  traits.final_norm = reader.Boolean("do_layer_norm_before", true) &&
                      !reader.Boolean("_remove_final_layer_norm", false);
  shape.tied = reader.Boolean("tie_word_embeddings", true);
  ReadHeadSize(reader, {}, shape);
  DescribeOptUnits(traits, shape);
}

void ReadOther(ShapeReader& reader, ModelShape& shape) {
  ReadSizes(reader, shape);
  shape.key_value_heads = reader.Integer(kKeyValueHeads, kMaxWidth, shape.heads);
  ReadHeadSize(reader, {}, shape);
  const std::string activation = reader.Text("hidden_act") + reader.Text("activation_function") +
                                 reader.Text("hidden_activation");
  shape.gated_mlp = activation == "silu" || activation == "swish" || activation == "swiglu";
  shape.experts = reader.Integer(kExperts, kMaxExperts, 1);
  shape.experts_used = std::min(shape.experts, reader.Integer(kExpertsUsed, kMaxExperts, 1));
  if (shape.experts > 1) {
    shape.intermediate = reader.Integer({"moe_intermediate_size"}, kMaxWidth, shape.intermediate);
  }
  shape.tied = reader.Boolean("tie_word_embeddings", false);
  DescribeOtherUnits(shape);
  shape.notes.push_back(absl::StrCat(
      shape.model_type.empty() ? "there is no model_type"
                               : absl::StrCat("model_type \"", shape.model_type, "\" is not known"),
      ": the parameters are a transformer's of these sizes, an approximation (",
      shape.gated_mlp ? "gated " : "", "MLP of ", shape.intermediate,
      shape.experts > 1 ? absl::StrCat(" in ", shape.experts, " experts") : "",
      reader.HasAny(kIntermediate) ? ")" : ", 4 x the hidden size)"));
}

using ReadFamily = void (*)(ShapeReader&, ModelShape&);
const std::map<std::string, ReadFamily>& Families() {
  static const auto& families = *new std::map<std::string, ReadFamily>{
      {"gpt2", ReadGpt2},       {"llama", ReadLlamaLike}, {"mistral", ReadLlamaLike},
      {"qwen2", ReadLlamaLike}, {"qwen3", ReadLlamaLike}, {"gemma", ReadLlamaLike},
      {"bert", ReadBert},       {"gpt_neox", ReadNeox},   {"opt", ReadOpt}};
  return families;
}

}  // namespace

absl::StatusOr<ModelShape> ReadModelShape(const JsonDocument& document) {
  const json* object = &document.value;
  std::string pointer;
  if (!object->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(document.file, ": not a JSON object"));
  }
  ModelShape shape;
  // Models of text and more keep the language model's values in an object of their own.
  const auto text = object->find("text_config");
  if (text != object->end() && text->is_object()) {
    object = &*text;
    pointer = "/text_config";
    shape.notes.push_back("only text_config is counted: vision and audio parts are left out");
  }
  ShapeReader reader(document, *object, pointer);
  shape.model_type = reader.Text("model_type");
  const auto family = Families().find(shape.model_type);
  shape.exact = family != Families().end();
  (shape.exact ? family->second : ReadOther)(reader, shape);
  RETURN_IF_ERROR(reader.status());
  const absl::Status laid_out = LayOutParameters(shape.model);
  if (!laid_out.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(document.file, ": ", laid_out.message()));
  }
  shape.base_parameters = shape.model.parameter_count();
  if (shape.causal && !shape.tied) {
    shape.base_parameters -= shape.model.units.back().parameters.back().elements;
  }
  return shape;
}

}  // namespace spillway
