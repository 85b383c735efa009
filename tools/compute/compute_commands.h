// The commands that compute, as the program calls them through tools/compute_library.h.
#pragma once

#include "tools/compute_library.h"

namespace spillway {

CommandOutcome Train(const RunConfig& config);
absl::StatusOr<Estimate> EstimateRun(const EstimateTask& task);
absl::Status Generate(const GenerateTask& task);
CommandOutcome Predict(const PredictTask& task);

}  // namespace spillway
