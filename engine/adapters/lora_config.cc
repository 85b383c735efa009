#include "engine/adapters/lora_config.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "engine/base/name_pattern.h"
#include "engine/base/shallow_json.h"
#include "engine/base/strict_json.h"
#include "engine/families/config_reader.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr int64_t kMostRank = 1 << 16;

// Keys of the file that do not affect numbers.
constexpr const char* kBookKeeping[] = {
    "auto_mapping",   "base_model_name_or_path", "inference_mode",    "peft_version",   "revision",
    "fan_in_fan_out", "megatron_core",           "qalora_group_size", "runtime_config",
};
constexpr const char* kTasks[] = {kCausalTask, kClassifierTask, kTokenTask, kQuestionTask,
                                  kPairTask};
constexpr const char* kUnderstood[] = {
    "peft_type",
    "task_type",
    "r",
    "lora_alpha",
    "lora_dropout",
    "use_rslora",
    "bias",
    "init_lora_weights",
    "target_modules",
    "exclude_modules",
    "modules_to_save",
    "layers_pattern",
    "layers_to_transform",
    "rank_pattern",
    "alpha_pattern",
    "ensure_weight_tying",
};

bool IsAmong(absl::Span<const char* const> keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

bool IsOff(const json& value) {
  return value.is_null() || value == false || value == "" ||
         ((value.is_object() || value.is_array()) && value.empty());
}

class Parser {
 public:
  Parser(const JsonDocument& document, absl::string_view text)
      : document_(document),
        in_file_order_(ParseShallowJson<nlohmann::ordered_json>(text)),
        in_(document) {}

  absl::StatusOr<LoraConfig> Parse() {
    if (const std::string type = in_.Text("peft_type"); type != "LORA") {
      in_.Fail("peft_type", absl::StrCat("peft_type is \"", type, "\"; expected \"LORA\""));
    }
    config_.task_type = in_.Text("task_type");
    if (const std::string& task = config_.task_type; !task.empty() && !IsAmong(kTasks, task)) {
      in_.Fail("task_type", absl::StrCat("task_type is \"", task, "\"; expected \"",
                                         absl::StrJoin(kTasks, "\", \""), "\""));
    }
    for (const auto& [key, value] : document_.value.items()) {
      if (IsAmong(kUnderstood, key) || IsAmong(kBookKeeping, key) || IsOff(value)) continue;
      in_.Fail(key, absl::StrCat(key, " is ", ConfigReader::Shown(value),
                                 ": adapters of that kind are not in this build"));
    }
    in_.Integer({"r"}, kMostRank, &config_.r);
    in_.Positive({"lora_alpha"}, 1e9, &config_.alpha);
    in_.Probability({"lora_dropout"}, &config_.dropout);
    in_.Boolean({"use_rslora"}, &config_.rank_stabilized);
    in_.Boolean({"ensure_weight_tying"}, &config_.ties);
    ReadBias();
    ReadInit();
    ReadModules("target_modules", &config_.targets, &config_.target_pattern);
    if (const json* said = in_.Find({"target_modules"});
        said != nullptr && config_.targets.empty() && config_.target_pattern.empty()) {
      in_.Refuse("target_modules", *said, "names of modules, or null for those of the family");
    }
    config_.targets_may_be_missing = true;
    ReadModules("exclude_modules", &config_.excluded, &config_.excluded_pattern);
    Texts("modules_to_save", &config_.modules_to_save);
    Texts("layers_pattern", &config_.layers_pattern);
    ReadLayers();
    ReadPattern("rank_pattern", &config_.rank_pattern);
    ReadPattern("alpha_pattern", &config_.alpha_pattern);
    RETURN_IF_ERROR(in_.status());
    RETURN_IF_ERROR(CheckLoraConfig(config_, document_.file));
    return config_;
  }

 private:
  void ReadBias() {
    const std::string bias = in_.Text("bias");
    if (bias == "all") {
      config_.bias = LoraConfig::Bias::kAll;
    } else if (bias == "lora_only") {
      config_.bias = LoraConfig::Bias::kLoraOnly;
    } else if (!bias.empty() && bias != "none") {
      in_.Refuse("bias", bias, "none, all or lora_only");
    }
  }

  void ReadInit() {
    const json* value = in_.Find({"init_lora_weights"});
    if (value == nullptr || *value == true) return;
    if (*value == "gaussian") {
      config_.init = LoraConfig::InitA::kGaussian;
      return;
    }
    in_.Refuse("init_lora_weights", *value, "true or \"gaussian\"");
  }

  // Reads a list of names, or a single text.
  void Texts(const char* key, std::vector<std::string>* into) {
    const json* value = in_.Find({key});
    if (value == nullptr) return;
    if (value->is_string()) {
      *into = {value->get<std::string>()};
      return;
    }
    for (const json& one : value->is_array() ? *value : json::array({nullptr})) {
      if (!one.is_string()) return in_.Refuse(key, *value, "a list of names");
      into->push_back(one.get<std::string>());
    }
  }

  void ReadModules(const char* key, std::vector<std::string>* names, std::string* pattern) {
    Texts(key, names);
    const json* value = in_.Find({key});
    if (value == nullptr || !value->is_string() || *value == kAllLinear) return;
    *pattern = std::move(names->front());
    names->clear();
  }

  void ReadLayers() {
    const json* value = in_.Find({"layers_to_transform"});
    if (value == nullptr) return;
    for (const json& one : value->is_array() ? *value : json::array({*value})) {
      if (!one.is_number_unsigned()) {
        return in_.Refuse("layers_to_transform", *value, "a layer's number, or a list of them");
      }
      config_.layers.push_back(one.get<int64_t>());
    }
  }

  template <typename T>
  void ReadPattern(const char* key, std::vector<std::pair<std::string, T>>* into) {
    const json* value = in_.Find({key});
    if (value == nullptr) return;
    if (!value->is_object()) return in_.Refuse(key, *value, "an object of numbers by module");
    for (const auto& [module, number] : in_file_order_[key].items()) {
      const bool right = std::is_integral_v<T> ? number.is_number_unsigned() : number.is_number();
      if (!right) return in_.Refuse(key, *value, "an object of numbers by module");
      into->emplace_back(module, number.template get<T>());
    }
  }

  const JsonDocument& document_;
  nlohmann::ordered_json in_file_order_;
  ConfigReader in_;
  LoraConfig config_;
};

// PEFT's get_pattern_key: the first pattern that ends the module's name, after a dot.
template <typename T>
auto FindPattern(const std::vector<std::pair<std::string, T>>& patterns,
                 const std::string& module) {
  return std::find_if(patterns.begin(), patterns.end(), [&](const auto& one) {
    const auto pattern = NamePattern::Parse(absl::StrCat("(?:.*\\.)?(?:", one.first, ")"));
    return pattern.ok() && pattern->Matches(module);
  });
}

template <typename T>
T Patterned(const std::vector<std::pair<std::string, T>>& patterns, const std::string& module,
            T otherwise) {
  const auto found = FindPattern(patterns, module);
  return found == patterns.end() ? otherwise : found->second;
}

template <typename T>
void AddUnused(const std::vector<std::pair<std::string, T>>& patterns, absl::string_view list,
               const std::vector<std::string>& modules, std::vector<std::string>& unused) {
  std::set<std::string> used;
  for (const std::string& module : modules) {
    const auto found = FindPattern(patterns, module);
    if (found != patterns.end()) used.insert(found->first);
  }
  for (const auto& [key, value] : patterns) {
    if (!used.contains(key)) unused.push_back(absl::StrCat(list, "'s ", key));
  }
}

// A JSON object sorts its keys, and so does PEFT when it saves. If the file's order differs, each
// key begins with a comment of a regular expression, "(?#0)", which Python ignores, too.
template <typename T>
json PatternsJson(const std::vector<std::pair<std::string, T>>& patterns) {
  const bool sorted = std::is_sorted(patterns.begin(), patterns.end());
  const size_t digits = absl::StrCat(patterns.size()).size();
  json object = json::object();
  for (size_t i = 0; i < patterns.size(); ++i) {
    const auto& [key, value] = patterns[i];
    object[sorted ? key : absl::StrFormat("(?#%0*d)%s", digits, i, key)] = value;
  }
  return object;
}

absl::Status CheckPatterns(const LoraConfig& config, absl::string_view what) {
  const auto check = [&](const std::string& text) -> absl::Status {
    const absl::Status status = NamePattern::Parse(text).status();
    if (status.ok()) return status;
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", status.message()));
  };
  for (const auto& [key, rank] : config.rank_pattern) {
    RETURN_IF_ERROR(check(key));
    if (rank < 1 || rank > kMostRank) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": the rank of ", key, " is ", rank, "; expected a number from 1"));
    }
  }
  for (const auto& [key, alpha] : config.alpha_pattern) RETURN_IF_ERROR(check(key));
  for (const std::string& pattern : config.layers_pattern) RETURN_IF_ERROR(check(pattern));
  RETURN_IF_ERROR(check(config.target_pattern));
  RETURN_IF_ERROR(check(config.excluded_pattern));
  return absl::OkStatus();
}

}  // namespace

int64_t LoraConfig::RankOf(const std::string& module) const {
  return Patterned(rank_pattern, module, r);
}

double LoraConfig::ScaleOf(const std::string& module) const {
  const double rank = static_cast<double>(RankOf(module));
  return Patterned(alpha_pattern, module, alpha) / (rank_stabilized ? std::sqrt(rank) : rank);
}

std::vector<std::string> LoraConfig::UnusedPatterns(const std::vector<std::string>& modules) const {
  std::vector<std::string> unused;
  AddUnused(rank_pattern, "rank_pattern", modules, unused);
  AddUnused(alpha_pattern, "alpha_pattern", modules, unused);
  return unused;
}

std::vector<std::string> DefaultLoraTargets(absl::string_view model_type) {
  if (model_type == "gpt2") return {"c_attn"};
  if (model_type == "gpt_neox") return {"query_key_value"};
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3", "opt", "bart"}) {
    if (model_type == type) return {"q_proj", "v_proj"};
  }
  if (model_type == "phi3") return {"qkv_proj"};  // PEFT has no default, as for CamemBERT
  for (const char* type : {"bert", "roberta", "xlm-roberta", "camembert", "data2vec-text"}) {
    if (model_type == type) return {"query", "value"};
  }
  if (model_type == "distilbert") return {"q_lin", "v_lin"};
  if (model_type == "t5" || model_type == "mt5") return {"q", "v"};
  if (model_type == "resnet") return {"convolution"};  // PEFT has no default
  return {};
}

absl::Status CheckLoraConfig(const LoraConfig& config, absl::string_view what) {
  const auto invalid = [&](const auto&... text) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", text...));
  };
  if (config.r < 1 || config.r > kMostRank) {
    return invalid("the rank is ", config.r, "; expected a number from 1 to ", kMostRank);
  }
  if (!(config.alpha > 0) || !std::isfinite(config.alpha)) {
    return invalid("alpha is ", config.alpha, "; expected a number above 0");
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    return invalid("the dropout is ", config.dropout, "; expected at least 0 and below 1");
  }
  if (!config.layers_pattern.empty() && config.layers.empty()) {
    return invalid("a pattern of layers is given, and no layers");
  }
  return CheckPatterns(config, what);
}

absl::StatusOr<LoraConfig> ParseAdapterConfig(absl::string_view text, absl::string_view file) {
  ASSIGN_OR_RETURN(const JsonDocument document, ParseStrictJson(text, file));
  if (!document.value.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": expected a JSON object"));
  }
  return Parser(document, text).Parse();
}

json AdapterConfigJson(const LoraConfig& config, const std::string& base_model, bool in_out) {
  const auto list_or_null = [](const auto& list) { return list.empty() ? json() : json(list); };
  const auto modules = [&](const std::vector<std::string>& names, const std::string& pattern) {
    if (!pattern.empty()) return json(pattern);
    return list_or_null(names);
  };
  static const char* const kBias[] = {"none", "all", "lora_only"};
  json written = {
      {"peft_type", "LORA"},
      {"task_type", config.task_type.empty() ? json() : json(config.task_type)},
      {"base_model_name_or_path", base_model},
      {"inference_mode", true},
      {"r", config.r},
      {"lora_alpha", config.alpha},
      {"lora_dropout", config.dropout},
      {"use_rslora", config.rank_stabilized},
      {"bias", kBias[static_cast<int>(config.bias)]},
      {"fan_in_fan_out", in_out},
      {"init_lora_weights",
       config.init == LoraConfig::InitA::kGaussian ? json("gaussian") : json(true)},
      {"target_modules", modules(config.targets, config.target_pattern)},
      {"exclude_modules", modules(config.excluded, config.excluded_pattern)},
      {"modules_to_save", list_or_null(config.modules_to_save)},
      {"layers_to_transform", list_or_null(config.layers)},
      {"layers_pattern", list_or_null(config.layers_pattern)},
      {"rank_pattern", PatternsJson(config.rank_pattern)},
      {"alpha_pattern", PatternsJson(config.alpha_pattern)},
      {"use_dora", false},
      {"lora_bias", false},
  };
  // Older versions of PEFT do not know the key.
  if (config.ties) written["ensure_weight_tying"] = true;
  return written;
}

}  // namespace spillway
