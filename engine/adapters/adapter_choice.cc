#include "engine/adapters/adapter_choice.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/adapters/adapter_file.h"
#include "engine/adapters/adapter_layout.h"
#include "engine/model/frozen_parameters.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

// Parameters tied to the embedding are trained with it, whichever name a module to save uses. A
// module that has no other parameters is removed from the list.
absl::Status TakeTied(const ModelShape& shape, std::vector<std::string>& saved) {
  const auto is_in_model = [&](const std::string& name) {
    for (const UnitDescription& unit : shape.model.units) {
      for (const ParameterDescription& parameter : unit.parameters) {
        if (IsInModule(ModuleOf(parameter.name), name)) return true;
      }
    }
    return false;
  };
  const auto saves = [&](const std::string& parameter) {
    return std::any_of(saved.begin(), saved.end(), [&](const std::string& name) {
      return IsInModule(ModuleOf(parameter), name);
    });
  };
  const auto is_tied = [&](const std::string& name) {
    return !is_in_model(name) &&
           std::any_of(shape.tied_names.begin(), shape.tied_names.end(),
                       [&](const std::string& tied) { return IsInModule(ModuleOf(tied), name); });
  };
  const auto tied = std::find_if(saved.begin(), saved.end(), is_tied);
  if (tied == saved.end()) return absl::OkStatus();
  if (!saves(shape.tied_to)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the module to save ", *tied, " has a matrix that the model ties to ",
                     ModuleOf(shape.tied_to), ": name that module, and both are trained as one"));
  }
  saved.erase(std::remove_if(saved.begin(), saved.end(), is_tied), saved.end());
  return absl::OkStatus();
}

// PEFT names the heads of all models that classify, "classifier" and "score".
void DropOtherClassifier(const ModelShape& shape, std::vector<std::string>& saved) {
  const std::string other = shape.classifier == "score" ? "classifier" : "score";
  const auto named = [&](const std::string& name) {
    return std::find(saved.begin(), saved.end(), name) != saved.end();
  };
  if (named("classifier") && named("score")) std::erase(saved, other);
}

}  // namespace

absl::StatusOr<LoraConfig> ResolveLora(const AdapterChoice& choice, const ModelShape& shape) {
  LoraConfig lora;
  if (choice.lora) {
    lora = *choice.lora;
  } else if (!choice.directory.empty()) {
    ASSIGN_OR_RETURN(lora, ReadAdapterConfig(choice.directory));
  } else {
    const auto text = FileSystem::Real().ReadSmallFile(choice.config_file);
    if (absl::IsNotFound(text.status())) {
      return absl::InvalidArgumentError(
          absl::StrCat("--peft-config ", choice.config_file, ": there is no such file"));
    }
    RETURN_IF_ERROR(text.status());
    ASSIGN_OR_RETURN(lora, ParseAdapterConfig(*text, choice.config_file));
    lora.targets_may_be_missing = false;
  }
  if (!lora.target_pattern.empty() && !lora.layers.empty()) {
    return absl::InvalidArgumentError(
        "the adapter has a regular expression as target_modules and layers_to_transform as well, "
        "which PEFT refuses: let the expression name the layers, or give names of modules");
  }
  if (lora.targets.empty() && lora.target_pattern.empty()) {
    lora.targets = DefaultLoraTargets(shape.model_type);
    if (lora.targets.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "nobody has said which layers of a ", shape.model_type,
          " are to be adapted: give --lora-targets ", kAllLinear, ", or names of layers"));
    }
  }
  // PEFT has no task name for masked language models and models of pictures, and its
  // sequence-to-sequence models take token ids: for a model that takes sound no task is named, even
  // if a file names one.
  const bool hears = shape.heard_positions > 0;
  const std::string task = shape.masked || hears || shape.sees ? ""
                           : shape.labels_tokens               ? kTokenTask
                           : shape.finds_spans                 ? kQuestionTask
                           : !shape.classifier.empty()         ? kClassifierTask
                           : shape.has_encoder                 ? kPairTask
                                                               : kCausalTask;
  if (hears && lora.task_type == kPairTask) lora.task_type = "";
  if (!lora.task_type.empty() && lora.task_type != task) {
    return absl::InvalidArgumentError(absl::StrCat("the adapter's task_type is ", lora.task_type,
                                                   ", and the model's task is ",
                                                   task.empty() ? "none of PEFT's" : task));
  }
  lora.task_type = task;
  std::vector<std::string>& saved = lora.modules_to_save;
  DropOtherClassifier(shape, saved);
  if (shape.tied_to.empty()) {
    lora.ties = false;
  } else {
    RETURN_IF_ERROR(TakeTied(shape, saved));
  }
  const auto save = [&](const std::string& module) {
    const bool there = std::any_of(saved.begin(), saved.end(), [&](const std::string& name) {
      return IsInModule(module, name);
    });
    if (!there) saved.push_back(module);
  };
  const bool goes_on = !choice.directory.empty();
  if (!shape.classifier.empty() && !goes_on && (saved.empty() || !shape.sees)) {
    save(shape.classifier);
  }
  // A module inside another one needs no entry of its own.
  std::vector<std::string> added = choice.new_modules;
  std::sort(added.begin(), added.end(),
            [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
  if (!goes_on) std::for_each(added.begin(), added.end(), save);
  return lora;
}

absl::StatusOr<ModelDescription> DescribeTrained(const ModelShape& shape,
                                                 const AdapterChoice& choice,
                                                 const FreezeRule& freeze) {
  ModelDescription trained = shape.model;
  AdapterLayout layout;
  const bool adapts = !choice.none();
  if (adapts) {
    ASSIGN_OR_RETURN(const LoraConfig lora, ResolveLora(choice, shape));
    ASSIGN_OR_RETURN(layout, LayOutAdapters(shape.model, lora));
    trained = WithAdapters(layout, std::move(trained));
  }
  RETURN_IF_ERROR(FreezeParameters(
      freeze,
      [&](const std::string& name) {
        return shape.frozen.count(name) > 0 ||
               (adapts && !IsAdapterName(name) && layout.trained.count(name) == 0);
      },
      trained));
  return trained;
}

}  // namespace spillway
