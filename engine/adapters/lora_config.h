// LoRA (arXiv 2106.09685) as PEFT's LoraConfig says it: which matrices W of a frozen model get
// W + scale * B A, with A [r, in] and B [out, r] trained, and what is trained besides.
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

  std::string task_type;  // PEFT's: "CAUSAL_LM", "SEQ_CLS", ...; "": not said, or none of PEFT's

  int64_t r = 8;
  double alpha = 8;
  double dropout = 0;            // of what A reads, in training
  bool rank_stabilized = false;  // alpha / sqrt(r) in place of alpha / r (rsLoRA)
  Bias bias = Bias::kNone;       // which biases of the model are trained as well
  InitA init = InitA::kUniform;  // B begins as zeros

  // Modules by their names or the ends of them after a dot; one alone, "all-linear", is every
  // linear layer but that of the logits and those in modules to save. A pattern in place of it is
  // matched as a whole.
  std::vector<std::string> targets, excluded;
  std::string target_pattern, excluded_pattern;  // regular expressions; "": not given
  std::vector<std::string> modules_to_save;      // which are trained whole
  std::vector<int64_t> layers;                   // only of these; empty: of all
  std::vector<std::string> layers_pattern;       // what stands before a layer's number; empty: any
  // By the ends of modules' names (regular expressions), of which the first that fits counts: what
  // stands in place of r and alpha.
  std::vector<std::pair<std::string, int64_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;
  bool ties = false;  // ensure_weight_tying: what a model ties stays so where it is saved
  // Of an adapter that is there already: names that the model has not got are passed over, as PEFT
  // passes over them.
  bool targets_may_be_missing = false;

  // Of the matrix of a module.
  int64_t RankOf(const std::string& module) const;
  double ScaleOf(const std::string& module) const;
  // The keys of rank_pattern and alpha_pattern that decide nothing for these modules, as
  // "rank_pattern's qq_proj".
  std::vector<std::string> UnusedPatterns(const std::vector<std::string>& modules) const;

  friend bool operator==(const LoraConfig&, const LoraConfig&) = default;
};

inline constexpr const char* kAllLinear = "all-linear";
inline constexpr const char* kCausalTask = "CAUSAL_LM";
inline constexpr const char* kClassifierTask = "SEQ_CLS";
inline constexpr const char* kTokenTask = "TOKEN_CLS";
inline constexpr const char* kPairTask = "SEQ_2_SEQ_LM";

// The modules that PEFT adapts in a family where none are named; empty where it names none.
std::vector<std::string> DefaultLoraTargets(absl::string_view model_type);

// The text of an adapter_config.json, `file` in messages. kInvalidArgument, "FILE:LINE: ...", for
// what is not LoRA, for values that make no sense, and for what PEFT has and this does not.
absl::StatusOr<LoraConfig> ParseAdapterConfig(absl::string_view text, absl::string_view file);

// The adapter_config.json of `config`, for a model of its task loaded from `base_model`.
// `in_out`: the adapted matrices are [in, out] in the model. "all-linear" is written as a name:
// PEFT reads names of modules alone (AdapterLayout::targets) beside layers_to_transform. Patterns
// whose order is not that of an object's keys get comments before them that make it so.
nlohmann::json AdapterConfigJson(const LoraConfig& config, const std::string& base_model,
                                 bool in_out);

// kInvalidArgument for what no model can be adapted by: a rank below 1, ...; `what` begins the
// message.
absl::Status CheckLoraConfig(const LoraConfig& config, absl::string_view what);

}  // namespace spillway
