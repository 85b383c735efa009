// The commands that compute, as the program calls them through tools/compute_library.h.
#pragma once

#include "tools/compute_library.h"

namespace spillway {

CommandOutcome Train(const RunConfig& config);
absl::StatusOr<Estimate> EstimateRun(const EstimateRequest& request);
absl::Status Generate(const GenerateRequest& request);
CommandOutcome Predict(const PredictRequest& request);

}  // namespace spillway
