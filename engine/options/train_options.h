// All options of a run, resolved from flags, config file and defaults (engine/config/run_config.h).
// Plain values.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "engine/options/commit_options.h"
#include "engine/options/placement_options.h"
#include "engine/options/rank_options.h"
#include "engine/options/report_options.h"
#include "engine/options/shape_options.h"

namespace spillway {

struct TrainOptions : ShapeOptions, PlacementOptions, CommitOptions, RankOptions, ReportOptions {
  std::string output;  // OUTPUT

  int64_t global_batch() const { return micro_batch * accumulate * ranks; }
  // Samples of all epochs before those of `step` (from 1).
  int64_t SamplesBefore(int64_t step) const {
    return cursor.samples + (step - 1 - cursor.step) * global_batch();
  }
};

// kInvalidArgument names the first impossible number, such as a micro-batch of 0. Optimizer,
// schedule, loss scale and others have their own checks.
absl::Status ValidateTrainOptions(const TrainOptions& options);

}  // namespace spillway
