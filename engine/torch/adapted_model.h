// A model with LoRA adapters beside some of its matrices: any model whose units multiply by
// UnitContext::Linear and say so (ParameterSpec::linear).
#pragma once

#include "absl/status/statusor.h"
#include "engine/adapters/adapter_layout.h"
#include "engine/adapters/lora_config.h"
#include "engine/torch/model.h"

namespace spillway {

struct AdaptedModel {
  Model model;
  AdapterLayout layout;
};

// The same units, each with its adapters' A and B behind its own parameters. `training`: all is
// frozen but them and what the config trains besides. kInvalidArgument where a target is not there
// or its unit cannot have one.
absl::StatusOr<AdaptedModel> AdaptModel(const Model& model, const LoraConfig& config,
                                        bool training);

}  // namespace spillway
