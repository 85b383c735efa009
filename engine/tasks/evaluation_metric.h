// The number by which evaluations of a run are compared (--metric), against those that its model
// and flags give.
#pragma once

#include "absl/status/status.h"
#include "engine/config/run_config.h"
#include "engine/tasks/task.h"
#include "engine/torch/model.h"

namespace spillway {

// kInvalidArgument, with the names that there are, where evaluations have no such --metric.
// Perplexity means the loss, of which it is a power, unless the model measures it itself.
absl::Status ResolveMetric(const Task& task, const Model& model, RunConfig& config);

}  // namespace spillway
