// Checks the metric by which evaluations of a run are compared (--metric) against those that its
// model and flags provide.
#pragma once

#include "absl/status/status.h"
#include "engine/config/run_config.h"
#include "engine/tasks/task.h"
#include "engine/torch/model.h"

namespace spillway {

// kInvalidArgument, listing the valid names, if evaluations have no such --metric. Perplexity means
// the loss, of which it is a power, unless the model measures it itself.
absl::Status ResolveMetric(const Task& task, const Model& model, RunConfig& config);

}  // namespace spillway
