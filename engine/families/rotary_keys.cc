#include "engine/families/rotary_keys.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

using nlohmann::json;
using Scaling = RotaryConfig::Scaling;

constexpr double kMostFactor = 1e6;
constexpr double kMostBase = 1e15;
constexpr int64_t kMostPositions = int64_t{1} << 28;
constexpr size_t kMostFactors = 1 << 16;
constexpr const char* kOriginalPositions = "original_max_position_embeddings";

// YaRN's scale of sines and cosines: arXiv 2309.00071, section 3.4.
double YarnScale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

void ReadYarn(ConfigReader& reader, const TransformerConfig& config, bool factor_given,
              RotaryConfig& rotary) {
  if (!factor_given) {
    rotary.factor = static_cast<double>(config.positions) / static_cast<double>(rotary.positions);
  }
  reader.Positive({"beta_fast"}, kMostFactor, &rotary.beta_fast);
  reader.Positive({"beta_slow"}, kMostFactor, &rotary.beta_slow);
  reader.Boolean({"truncate"}, &rotary.truncate);
  double mscale = 0, mscale_all = 0;
  reader.Number({"mscale"}, 0, kMostFactor, "a number of at least 0", &mscale);
  reader.Number({"mscale_all_dim"}, 0, kMostFactor, "a number of at least 0", &mscale_all);
  rotary.attention_factor = mscale > 0 && mscale_all > 0 ? YarnScale(rotary.factor, mscale) /
                                                               YarnScale(rotary.factor, mscale_all)
                                                         : YarnScale(rotary.factor, 1);
  reader.Positive({"attention_factor"}, kMostFactor, &rotary.attention_factor);
}

// Reads a factor for each pair of rotated elements.
void ReadFactors(ConfigReader& reader, const char* key, std::vector<double>& factors) {
  const json* const found = reader.Find({key});
  if (found == nullptr)
    return reader.Fail("", absl::StrCat("RoPE of the type longrope needs a ", key));
  const auto is_factor = [](const json& one) {
    return one.is_number() && one.get<double>() > 0 && one.get<double>() < kMostFactor;
  };
  if (!found->is_array() || found->size() > kMostFactors ||
      !std::all_of(found->begin(), found->end(), is_factor)) {
    return reader.Refuse(key, *found, "a list of numbers above 0, one for each pair of elements");
  }
  factors = found->get<std::vector<double>>();
}

// Phi-3's scaling, whose factor of sines and cosines follows from the extension of the context.
void ReadLongRope(ConfigReader& reader, const TransformerConfig& config, bool factor_given,
                  RotaryConfig& rotary) {
  ReadFactors(reader, "short_factor", rotary.short_factors);
  ReadFactors(reader, "long_factor", rotary.long_factors);
  if (!factor_given) {
    rotary.factor = static_cast<double>(config.positions) / static_cast<double>(rotary.positions);
  }
  const double stretch = std::log(rotary.factor) / std::log(static_cast<double>(rotary.positions));
  rotary.attention_factor = rotary.factor <= 1 ? 1 : std::sqrt(1 + stretch);
  reader.Positive({"attention_factor"}, kMostFactor, &rotary.attention_factor);
  rotary.scaling = Scaling::kLong;
}

// `original`: original_max_position_embeddings beside the object; 0: none.
void ReadScaling(ConfigReader& reader, const TransformerConfig& config, int64_t original,
                 RotaryConfig& rotary) {
  for (const char* key : {"rope_type", "type"}) {
    const json* given = reader.Find({key});
    if (given != nullptr && !given->is_string()) return reader.Refuse(key, *given, "a text");
  }
  std::string type = reader.Text("rope_type");
  if (type.empty()) type = reader.Text("type");
  // Phi-3's class treats these as longrope.
  if (config.model_type == "phi3" && (type == "su" || type == "yarn")) type = "longrope";
  rotary.positions = config.positions;
  // Ignored unless the scaling type uses it.
  reader.Has({kOriginalPositions});
  if (type.empty() || type == "default") return;
  const bool factor_given = reader.Has({"factor"});
  reader.Number({"factor"}, 1, kMostFactor, "a number of at least 1", &rotary.factor);
  if (type != "dynamic") {
    reader.Integer({kOriginalPositions}, kMostPositions, &rotary.positions);
    // As in transformers, the key beside the object has precedence.
    if (original > 0) rotary.positions = original;
  }
  if (type == "linear") {
    rotary.scaling = Scaling::kLinear;
  } else if (type == "dynamic") {
    rotary.scaling = Scaling::kDynamic;
  } else if (type == "llama3") {
    rotary.scaling = Scaling::kLlama3;
    reader.Positive({"low_freq_factor"}, kMostFactor, &rotary.low_frequency_factor);
    reader.Positive({"high_freq_factor"}, kMostFactor, &rotary.high_frequency_factor);
    if (rotary.high_frequency_factor <= rotary.low_frequency_factor) {
      reader.Fail("high_freq_factor",
                  absl::StrCat("high_freq_factor ", rotary.high_frequency_factor,
                               " must be more than low_freq_factor ", rotary.low_frequency_factor));
    }
  } else if (type == "yarn") {
    rotary.scaling = Scaling::kYarn;
    ReadYarn(reader, config, factor_given, rotary);
  } else if (type == "longrope") {
    ReadLongRope(reader, config, factor_given, rotary);
  } else {
    reader.Unsupported(reader.Has({"rope_type"}) ? "rope_type" : "type",
                       absl::StrCat("RoPE of the type \"", type,
                                    "\" is not supported; there are default, linear, dynamic, "
                                    "llama3, yarn and longrope"));
    return;
  }
  if (!factor_given && type != "yarn" && type != "longrope") {
    reader.Fail("", absl::StrCat("RoPE of the type \"", type, "\" needs a factor"));
  }
}

}  // namespace

void ReadRotary(ConfigReader& reader, const ConfigReader::Keys& base_keys,
                const ConfigReader::Keys& partial_keys, double partial, TransformerConfig& config) {
  RotaryConfig& rotary = config.rotary;
  reader.Positive(base_keys, kMostBase, &rotary.base);
  if (!partial_keys.empty()) reader.Positive(partial_keys, 1.0001, &partial);
  int64_t original = config.model_type == "phi3" ? 4096 : 0;
  reader.Integer({kOriginalPositions}, kMostPositions, &original);
  const json* scaling = reader.Find({"rope_scaling"});
  if (scaling != nullptr && scaling->is_object() && scaling->empty()) scaling = nullptr;
  const json* parameters = reader.Find({"rope_parameters"});
  const char* key = scaling != nullptr ? "rope_scaling" : "rope_parameters";
  const json* found = scaling != nullptr ? scaling : parameters;
  if (found != nullptr && !found->is_object()) return reader.Refuse(key, *found, "an object");
  if (found != nullptr) {
    ConfigReader inner = reader.Inside(key);
    inner.Positive({"rope_theta"}, kMostBase, &rotary.base);
    double inner_partial = partial;
    inner.Positive({"partial_rotary_factor"}, 1.0001, &inner_partial);
    if (inner_partial != partial && partial_keys.empty()) {
      inner.Unsupported("partial_rotary_factor",
                        "turning a part of each head is not supported "
                        "for this family");
    }
    partial = inner_partial;
    for (const auto& [name, value] : found->items()) {
      if (!value.is_object()) continue;
      inner.Unsupported(name, "RoPE that differs by layer is not supported");
    }
    ReadScaling(inner, config, original, rotary);
    reader.Absorb(inner);
  }
  rotary.size = static_cast<int64_t>(static_cast<double>(config.head_size) * partial);
  // If the number is odd, one extra element is rotated, as in transformers.
  if (reader.status().ok() && rotary.size % 2 != 0 &&
      (rotary.size == config.head_size || rotary.scaling == Scaling::kYarn)) {
    reader.Fail(
        "head_dim",
        absl::StrCat("RoPE needs an even number of turned elements a head, not ", rotary.size));
  }
  for (const auto* factors : {&rotary.short_factors, &rotary.long_factors}) {
    const auto pairs = static_cast<size_t>((rotary.size + 1) / 2);
    if (rotary.scaling != Scaling::kLong || factors->size() == pairs) continue;
    reader.Fail(key, absl::StrCat("longrope has ", factors->size(), " factors for ", pairs,
                                  " pairs of turned elements a head"));
  }
  if (rotary.scaling == Scaling::kDynamic && rotary.size <= 2) {
    reader.Fail(key, absl::StrCat("dynamic RoPE needs more than 2 turned elements a head, not ",
                                  rotary.size));
  }
}

}  // namespace spillway
