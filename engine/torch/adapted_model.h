// Adds LoRA adapters to some matrices of a model: any model whose units multiply by
// UnitContext::Linear and declare it (ParameterSpec::linear).
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

// The units of `model`, each with its adapters' A and B after its own parameters. `training`:
// everything is frozen except these and the config's other trained parameters. kInvalidArgument if
// a target does not exist or its unit does not support one.
absl::StatusOr<AdaptedModel> AdaptModel(const Model& model, const LoraConfig& config,
                                        bool training);

}  // namespace spillway
