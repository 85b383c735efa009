#include "engine/adapters/adapter_choice.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/adapters/adapter_file.h"
#include "engine/adapters/adapter_layout.h"
#include "engine/model/frozen_parameters.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {

absl::StatusOr<LoraConfig> ResolveLora(const AdapterChoice& choice, absl::string_view model_type) {
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
  }
  if (lora.targets.empty() && lora.target_pattern.empty()) {
    lora.targets = DefaultLoraTargets(model_type);
    if (lora.targets.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "nobody has said which layers of a ", model_type,
          " are to be adapted: give --lora-targets ", kAllLinear, ", or names of layers"));
    }
  }
  return lora;
}

absl::StatusOr<ModelDescription> DescribeTrained(const ModelDescription& model,
                                                 absl::string_view model_type,
                                                 const AdapterChoice& choice,
                                                 const FreezeRule& freeze) {
  ModelDescription trained = model;
  AdapterLayout layout;
  const bool adapts = !choice.none();
  if (adapts) {
    ASSIGN_OR_RETURN(const LoraConfig lora, ResolveLora(choice, model_type));
    ASSIGN_OR_RETURN(layout, LayOutAdapters(model, lora));
    trained = WithAdapters(layout, std::move(trained));
  }
  RETURN_IF_ERROR(FreezeParameters(
      freeze,
      [&](const std::string& name) {
        return adapts && !IsAdapterName(name) && layout.trained.count(name) == 0;
      },
      trained));
  return trained;
}

}  // namespace spillway
