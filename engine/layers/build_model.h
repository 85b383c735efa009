// Chooses the code that computes the model of a config.json.
#pragma once

#include "absl/status/statusor.h"
#include "engine/families/model_config.h"
#include "engine/torch/model.h"

namespace spillway {

// InvalidArgument for a config that was made in code and contradicts itself.
absl::StatusOr<Model> BuildModel(const ModelConfig& config);

}  // namespace spillway
