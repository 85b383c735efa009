// LoRA (arXiv 2106.09685) with the settings of PEFT's LoraConfig: the matrices W of a frozen model
// that become W + scale * B A, with A [r, in] and B [out, r] trained, and other trained parameters.
// Plain values; no LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace spillway {

struct LoraConfig {
  enum class Bias { kNone, kAll, kLoraOnly };
  enum class InitA { kUniform, kGaussian };

  std::string task_type;  // PEFT's: "CAUSAL_LM", "SEQ_CLS", ...; "": none

  int64_t r = 8;
  double alpha = 8;
  double dropout = 0;            // of A's input, in training
  bool rank_stabilized = false;  // scale is alpha / sqrt(r) instead of alpha / r (rsLoRA)
  Bias bias = Bias::kNone;       // biases of the model that are trained as well
  InitA init = InitA::kUniform;  // B begins as zeros

  // Modules by their names or the ends of those after a dot. The single name "all-linear" means
  // every linear layer except the logits and those in modules to save. A pattern replaces the names
  // and must match the whole name.
  std::vector<std::string> targets, excluded;
  std::string target_pattern, excluded_pattern;  // regular expressions; "": none
  std::vector<std::string> modules_to_save;      // trained whole
  std::vector<int64_t> layers;                   // adapted layers; empty: all
  std::vector<std::string> layers_pattern;       // name before a layer's number; empty: any
  // Replacements for r and alpha, by the ends of modules' names (regular expressions); the first
  // match counts.
  std::vector<std::pair<std::string, int64_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;
  bool ties = false;  // ensure_weight_tying: tied parameters stay tied if they are saved
  // For an existing adapter: targets that the model lacks are ignored, as in PEFT.
  bool targets_may_be_missing = false;

  // Rank and scale of a module's adapter.
  int64_t RankOf(const std::string& module) const;
  double ScaleOf(const std::string& module) const;
  // The keys of rank_pattern and alpha_pattern that match none of these modules, as "rank_pattern's
  // qq_proj".
  std::vector<std::string> UnusedPatterns(const std::vector<std::string>& modules) const;

  friend bool operator==(const LoraConfig&, const LoraConfig&) = default;
};

inline constexpr const char* kAllLinear = "all-linear";
inline constexpr const char* kCausalTask = "CAUSAL_LM";
inline constexpr const char* kClassifierTask = "SEQ_CLS";
inline constexpr const char* kTokenTask = "TOKEN_CLS";
inline constexpr const char* kQuestionTask = "QUESTION_ANS";
inline constexpr const char* kPairTask = "SEQ_2_SEQ_LM";

// The modules that PEFT adapts by default in a family; empty if it has no default.
std::vector<std::string> DefaultLoraTargets(absl::string_view model_type);

// Parses an adapter_config.json; `file` is its name in messages. kInvalidArgument, "FILE:LINE:
// ...", for other methods than LoRA, invalid values, and features of PEFT that are not supported.
absl::StatusOr<LoraConfig> ParseAdapterConfig(absl::string_view text, absl::string_view file);

// The adapter_config.json of `config`, for a model of its task loaded from `base_model`. `in_out`:
// the adapted matrices are [in, out] in the model. "all-linear" is written as names, since beside
// layers_to_transform PEFT reads only names of modules (AdapterLayout::targets). Patterns whose
// order differs from that of an object's keys begin with comments that restore it.
nlohmann::json AdapterConfigJson(const LoraConfig& config, const std::string& base_model,
                                 bool in_out);

// kInvalidArgument for settings that fit no model, such as a rank below 1; the message begins with
// `what`.
absl::Status CheckLoraConfig(const LoraConfig& config, absl::string_view what);

}  // namespace spillway
