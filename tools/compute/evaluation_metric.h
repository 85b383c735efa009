// What evaluations of a run are judged by, against what its model and flags give them.
#pragma once

#include "absl/status/status.h"
#include "engine/config/run_config.h"
#include "engine/families/model_config.h"
#include "engine/torch/model.h"

namespace spillway {

// kInvalidArgument, with those that there are, where evaluations have no such --metric. `model` is
// built as `model_config` says.
absl::Status CheckMetric(const RunConfig& config, const ModelConfig& model_config,
                         const Model& model);

}  // namespace spillway
