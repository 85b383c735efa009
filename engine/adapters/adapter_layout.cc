#include "engine/adapters/adapter_layout.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/base/name_pattern.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr absl::string_view kWeight = ".weight", kBias = ".bias";

// Whether PEFT's `name` means the module: the whole name, or its end after a dot.
bool IsNamed(const std::string& module, const std::string& name) {
  return module == name || absl::EndsWith(module, "." + name);
}

bool IsNamed(const std::string& module, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return IsNamed(module, name); });
}

// The last part of a name: "q_proj" for "model.layers.0.self_attn.q_proj".
std::string LastPart(const std::string& module) { return module.substr(module.rfind('.') + 1); }

class Chooser {
 public:
  Chooser(const ModelDescription& model, const LoraConfig& config)
      : model_(model), config_(config) {}

  absl::StatusOr<AdapterLayout> Choose() {
    RETURN_IF_ERROR(CheckLoraConfig(config_, "LoRA"));
    if (config_.targets.empty() && config_.target_pattern.empty()) {
      return absl::InvalidArgumentError("LoRA: no modules are named as targets");
    }
    RETURN_IF_ERROR(ReadPatterns());
    AdapterLayout layout;
    for (const UnitDescription& unit : model_.units) {
      std::vector<AdaptedWeight>& adapted = layout.units.emplace_back();
      for (size_t i = 0; i < unit.parameters.size(); ++i) {
        const ParameterDescription& parameter = unit.parameters[i];
        if (IsTarget(parameter)) adapted.push_back(Adapt(parameter, static_cast<int>(i)));
      }
    }
    RETURN_IF_ERROR(CheckAllFound(layout));
    RETURN_IF_ERROR(ChooseTrained(layout));
    return layout;
  }

 private:
  bool all_linear() const { return config_.targets == std::vector<std::string>{kAllLinear}; }

  absl::Status ReadPatterns() {
    if (!config_.target_pattern.empty()) {
      ASSIGN_OR_RETURN(target_, NamePattern::Parse(config_.target_pattern));
    }
    if (!config_.excluded_pattern.empty()) {
      ASSIGN_OR_RETURN(excluded_, NamePattern::Parse(config_.excluded_pattern));
    }
    // PEFT's pattern finds the first number in "decoder.block.3.layer.1.SelfAttention". Groups in a
    // user's pattern do not count (?n).
    std::vector<std::string> before = {".*?\\.[^.]*"};
    if (!config_.layers_pattern.empty()) before.clear();
    for (const std::string& pattern : config_.layers_pattern) {
      before.push_back(absl::StrCat("(^|.*?\\.)", pattern));
    }
    for (const std::string& text : before) {
      ASSIGN_OR_RETURN(NamePattern pattern, NamePattern::Parse(absl::StrCat(
                                                "(?n)", text, "\\.(?<layer>\\d{1,9})\\..*")));
      layers_.push_back(std::move(pattern));
    }
    return absl::OkStatus();
  }

  bool IsTarget(const ParameterDescription& parameter) const {
    if (parameter.linear == LinearWeight::kNone) return false;
    // As in PEFT, convolutions are adapted only if they are named.
    if (all_linear() && parameter.linear == LinearWeight::kKernels) return false;
    const std::string module = ModuleOf(parameter.name);
    if (IsNamed(module, config_.excluded)) return false;
    if (excluded_ && excluded_->Matches(module)) return false;
    if (IsInSaved(module) || (all_linear() && IsSaved(parameter.name))) return false;
    const auto& targets = config_.targets;
    // As in PEFT, a module whose full name is given is adapted in whatever layer.
    if (std::count(targets.begin(), targets.end(), module) > 0) return true;
    const bool named =
        target_ ? target_->Matches(module) : all_linear() || IsNamed(module, targets);
    return named && IsOfLayers(module);
  }

  bool IsSaved(const std::string& parameter) const {
    const auto& saved = config_.modules_to_save;
    return std::any_of(saved.begin(), saved.end(),
                       [&](const std::string& name) { return IsInside(parameter, name); });
  }

  // As in PEFT, targets inside a module to save are ignored, compared by whole parts of names.
  bool IsInSaved(const std::string& module) const {
    const std::string dotted = absl::StrCat(".", module, ".");
    const auto& saved = config_.modules_to_save;
    return std::any_of(saved.begin(), saved.end(), [&](const std::string& name) {
      return absl::StrContains(dotted, absl::StrCat(".", name, "."));
    });
  }

  bool IsOfLayers(const std::string& module) const {
    const std::vector<int64_t>& layers = config_.layers;
    if (layers.empty()) return true;
    for (const NamePattern& pattern : layers_) {  // the first match counts
      const auto layer = pattern.GroupIn(module);
      if (layer) return std::count(layers.begin(), layers.end(), std::stoll(*layer)) > 0;
    }
    return false;
  }

  AdaptedWeight Adapt(const ParameterDescription& parameter, int index) const {
    AdaptedWeight weight;
    weight.parameter = index;
    weight.module = ModuleOf(parameter.name);
    weight.form = parameter.linear;
    const std::vector<int64_t>& shape = parameter.shape;
    const bool in_out = parameter.linear == LinearWeight::kInOut;
    weight.in = shape[in_out ? 0 : 1];
    weight.out = shape[in_out ? 1 : 0];
    if (parameter.linear == LinearWeight::kKernels) {
      weight.window = {shape[2], shape[3]};
      weight.in *= shape[2] * shape[3];
    }
    weight.rank = config_.RankOf(weight.module);
    weight.scale = config_.ScaleOf(weight.module);
    return weight;
  }

  // The last parts of all linear layers' names, for messages.
  std::string Linears() const {
    std::set<std::string> names;
    for (const UnitDescription& unit : model_.units) {
      for (const ParameterDescription& parameter : unit.parameters) {
        if (parameter.linear != LinearWeight::kNone)
          names.insert(LastPart(ModuleOf(parameter.name)));
      }
    }
    return absl::StrJoin(names, ", ");
  }

  // Some targets may be entirely excluded, in other layers, or in modules to save, if at least one
  // target remains.
  absl::Status CheckAllFound(const AdapterLayout& layout) const {
    if (!all_linear() && !target_ && !config_.targets_may_be_missing) {
      for (const std::string& name : config_.targets) RETURN_IF_ERROR(CheckLinear(name));
    }
    if (!layout.weights().empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "LoRA's targets ", absl::StrJoin(config_.targets, ", "), config_.target_pattern,
        " leave no layer to be adapted; the model's linear layers are ", Linears(),
        config_.layers.empty() ? "" : ", of the layers that are named",
        config_.excluded.empty() && !excluded_ ? "" : ", but those that are excluded",
        config_.modules_to_save.empty() ? "" : ", outside the modules to save"));
  }

  absl::Status CheckLinear(const std::string& target) const {
    std::string other;  // a module with that name
    for (const UnitDescription& unit : model_.units) {
      for (const ParameterDescription& parameter : unit.parameters) {
        std::string module = ModuleOf(parameter.name);
        if (!IsNamed(module, target)) continue;
        if (parameter.linear != LinearWeight::kNone) return absl::OkStatus();
        other = std::move(module);
      }
    }
    if (!other.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("LoRA's target ", target, " is ", other,
                       ", beside which there are no adapters: it can be trained whole "
                       "(--modules-to-save ",
                       target, "); they go beside ", Linears()));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("LoRA's target ", target, " is no layer of the model; the linear layers are ",
                     Linears(), ", or \"", kAllLinear, "\" for all of them"));
  }

  absl::Status ChooseTrained(AdapterLayout& layout) const {
    for (const std::string& name : config_.modules_to_save) {
      bool found = false;
      for (const UnitDescription& unit : model_.units) {
        for (const ParameterDescription& parameter : unit.parameters) {
          if (!IsInside(parameter.name, name)) continue;
          found = true;
          layout.trained.insert(parameter.name);
        }
      }
      if (!found) {
        return absl::InvalidArgumentError(
            absl::StrCat("the module to save ", name, " is not in the model", HeadHint(name)));
      }
    }
    for (const AdaptedWeight* weight : layout.weights()) {
      if (layout.trained.count(absl::StrCat(weight->module, kWeight)) == 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          weight->module, " is both a target of LoRA and a module to save: it can be one of them"));
    }
    AddBiases(layout);
    return absl::OkStatus();
  }

  void AddBiases(AdapterLayout& layout) const {
    if (config_.bias == LoraConfig::Bias::kNone) return;
    std::set<std::string> adapted;
    for (const AdaptedWeight* weight : layout.weights()) adapted.insert(weight->module);
    for (const UnitDescription& unit : model_.units) {
      for (const ParameterDescription& parameter : unit.parameters) {
        if (!absl::EndsWith(parameter.name, kBias)) continue;
        if (config_.bias == LoraConfig::Bias::kAll || adapted.count(ModuleOf(parameter.name)) > 0) {
          layout.trained.insert(parameter.name);
        }
      }
    }
  }

  static bool IsInside(const std::string& parameter, const std::string& ending) {
    const size_t dot = parameter.rfind('.');
    return dot != std::string::npos && IsInModule(parameter.substr(0, dot), ending);
  }

  static std::string HeadHint(const std::string& name) {
    return name == "lm_head" ? ": its logits are the embedding's, or their matrix has another name"
                             : "";
  }

  const ModelDescription& model_;
  const LoraConfig& config_;
  std::optional<NamePattern> target_, excluded_;
  std::vector<NamePattern> layers_;  // the group is a layer's number
};

}  // namespace

std::string ModuleOf(absl::string_view parameter) {
  if (absl::ConsumeSuffix(&parameter, kWeight)) return std::string(parameter);
  absl::ConsumeSuffix(&parameter, kBias);
  return std::string(parameter);
}

bool IsInModule(absl::string_view module, absl::string_view ending) {
  // transformers 5 uses this name for GPT-NeoX's logits.
  if (module == "embed_out" && ending == "lm_head") return true;
  for (size_t dot = module.find('.'); dot != absl::string_view::npos;
       dot = module.find('.', dot + 1)) {
    if (absl::EndsWith(module.substr(0, dot), ending)) return true;
  }
  return absl::EndsWith(module, ending);
}

std::vector<int64_t> AdaptedWeight::shape_a() const {
  if (window.empty()) return {rank, in};
  return {rank, in / (window[0] * window[1]), window[0], window[1]};
}

std::vector<int64_t> AdaptedWeight::shape_b() const {
  if (window.empty()) return {out, rank};
  return {out, rank, 1, 1};
}

std::vector<const AdaptedWeight*> AdapterLayout::weights() const {
  std::vector<const AdaptedWeight*> all;
  for (const auto& unit : units) {
    for (const AdaptedWeight& weight : unit) all.push_back(&weight);
  }
  return all;
}

std::vector<std::string> AdapterLayout::modules() const {
  std::vector<std::string> names;
  for (const AdaptedWeight* weight : weights()) names.push_back(weight->module);
  return names;
}

std::vector<std::string> AdapterLayout::targets() const {
  std::set<std::string> names;
  for (const AdaptedWeight* weight : weights()) names.insert(LastPart(weight->module));
  return {names.begin(), names.end()};
}

std::vector<std::string> AdapterLayout::excluded() const {
  const std::vector<std::string> named = targets();
  std::vector<std::string> modules;
  for (const std::string& parameter : trained) {
    if (!absl::EndsWith(parameter, kWeight)) continue;
    std::string module = ModuleOf(parameter);
    if (IsNamed(module, named)) modules.push_back(std::move(module));
  }
  return modules;
}

int64_t AdapterLayout::parameters() const {
  int64_t count = 0;
  for (const AdaptedWeight* weight : weights()) count += weight->rank * (weight->in + weight->out);
  return count;
}

absl::StatusOr<AdapterLayout> LayOutAdapters(const ModelDescription& model,
                                             const LoraConfig& config) {
  return Chooser(model, config).Choose();
}

ModelDescription WithAdapters(const AdapterLayout& layout, ModelDescription model) {
  for (size_t unit = 0; unit < layout.units.size(); ++unit) {
    auto& parameters = model.units[unit].parameters;
    for (const AdaptedWeight& weight : layout.units[unit]) {
      parameters.push_back({weight.name_a(), weight.shape_a()});
      parameters.push_back({weight.name_b(), weight.shape_b()});
    }
  }
  return model;
}

bool IsAdapterName(absl::string_view name) {
  return absl::EndsWith(name, ".lora_A.weight") || absl::EndsWith(name, ".lora_B.weight");
}

}  // namespace spillway
