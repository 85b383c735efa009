#include "engine/families/layer_keys.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace spillway {
namespace {

using nlohmann::json;

// Refuses other quantisation methods. The supported one is recognised by its tensors
// (engine/weights/packed_tensors.h).
void ReadQuantization(ConfigReader& reader) {
  for (const char* key : {"quantization", "quantization_config"}) {
    const json* const found = reader.Find({key});
    if (found == nullptr || !found->is_object() || !found->contains("group_size") ||
        !found->contains("bits") || found->contains("quant_method")) {
      continue;
    }
    reader.Unsupported(
        key, absl::StrCat(key, " has bits ", ConfigReader::Shown((*found)["bits"]),
                          " and a group_size: MLX has quantised these weights, and they are not "
                          "read. Give the model that they were made from"));
    return;
  }
  const json* const found = reader.Find({"quantization_config"});
  if (found == nullptr || found->is_null()) return;
  if (!found->is_object()) {
    reader.Refuse("quantization_config", *found, "an object");
    return;
  }
  json method = found->value("quant_method", json());
  // Files of older transformers name no method, and had only this one.
  const auto loads = [&](const char* key) { return found->value(key, json()) == true; };
  if (method.is_null() && (loads("load_in_8bit") || loads("load_in_4bit"))) {
    method = "bitsandbytes";
  }
  const bool is_fp4 = found->value("load_in_4bit", json()) == true &&
                      found->value("bnb_4bit_quant_type", json()) != "nf4";
  if (method == "bitsandbytes" && !is_fp4) return;
  reader.Unsupported(
      "quantization_config",
      absl::StrCat("quantization_config has ",
                   is_fp4 ? "bnb_4bit_quant_type fp4"
                          : absl::StrCat("quant_method ", ConfigReader::Shown(method)),
                   ": of quantised weights there are bitsandbytes' nf4 and int8"));
}

}  // namespace

void ReadActivation(ConfigReader& reader, const ConfigReader::Keys& keys, Activation* activation) {
  const char* key = nullptr;
  const json* found = reader.Find(keys, &key);
  if (found == nullptr) return;
  const auto& names = ActivationNames();
  const auto known = found->is_string() ? names.find(found->get<std::string>()) : names.end();
  if (known != names.end()) {
    *activation = known->second;
    return;
  }
  reader.Refuse(
      key, *found,
      absl::StrCat("one of ", absl::StrJoin(names, ", ", [](std::string* out, const auto& entry) {
                     absl::StrAppend(out, entry.first);
                   })));
}

void RefuseOtherModels(ConfigReader& reader, bool has_encoder) {
  if (has_encoder) {
    bool has_decoder = true;
    reader.Boolean({"is_encoder_decoder"}, &has_decoder);
    if (!has_decoder) {
      reader.Unsupported("is_encoder_decoder",
                         "is_encoder_decoder is false: of this family both are supported together");
    }
    reader.MustBeOff("is_decoder", "a decoder without its encoder");
  } else {
    reader.MustBeOff("add_cross_attention", "cross-attention");
    reader.MustBeOff("is_encoder_decoder", "an encoder-decoder model");
  }
  reader.MustBeOff("per_layer_config", "a model whose layers differ");
  reader.MustBeOff("pruned_heads", "a model with pruned heads");
  ReadQuantization(reader);
}

void ReadHeadSize(ConfigReader& reader, int64_t fallback, TransformerConfig& c) {
  const bool given = reader.Has({"head_dim"});
  c.head_size = fallback > 0 ? fallback : c.heads > 0 ? c.hidden / c.heads : 0;
  reader.Integer({"head_dim"}, kMaxWidth, &c.head_size);
  if (!given && fallback == 0 && c.heads > 0 && c.hidden % c.heads != 0) {
    reader.Fail(
        reader.Has({"hidden_size"}) ? "hidden_size"
        : reader.Has({"d_model"})   ? "d_model"
                                    : "n_embd",
        absl::StrCat("the hidden size ", c.hidden, " is not divisible by ", c.heads, " heads"));
  }
  c.score_scale = 1 / std::sqrt(static_cast<double>(c.head_size));
}

void ReadPaddingToken(ConfigReader& reader, std::optional<int64_t> fallback, TransformerConfig& c) {
  const json* found = reader.Find({"pad_token_id"});
  if (found == nullptr) {
    if (!reader.IsNull("pad_token_id")) c.padding_token = fallback;
  } else if (found->is_number_integer()) {
    const int64_t id = found->get<int64_t>();
    c.padding_token = id < 0 ? id + c.vocabulary : id;
  }
  if (c.padding_token && (*c.padding_token < 0 || *c.padding_token >= c.vocabulary)) {
    c.padding_token.reset();  // never in the data
  }
}

std::string ArchitectureOf(ConfigReader& reader) {
  const json* names = reader.Find({"architectures"});
  const bool named = names != nullptr && names->is_array() && !names->empty();
  return named && names->front().is_string() ? names->front().get<std::string>() : "";
}

void ReadLastTokenClassifier(ConfigReader& reader, std::optional<int64_t> padding_token,
                             TransformerConfig& c) {
  if (!absl::EndsWith(ArchitectureOf(reader), "ForSequenceClassification")) return;
  ReadLabels(reader, c.classifier.emplace());
  c.classifier->of_last_token = true;
  const json* found = reader.Find({"pad_token_id"});
  if (found != nullptr && found->is_number_integer()) {
    c.classifier->padding_token = found->get<int64_t>();
  } else if (!reader.IsNull("pad_token_id")) {
    c.classifier->padding_token = padding_token;
  }
  c.names.classifier = "score";
  c.names.logits.clear();
  c.tied = false;
}

}  // namespace spillway
