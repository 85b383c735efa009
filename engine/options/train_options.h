// Everything a run is told, resolved: flags, then the config file, then defaults
// (engine/config/run_config.h does that). What needs but a part is given that. Plain values.
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
  // The samples, of all epochs, that come before those of `step` (from 1).
  int64_t SamplesBefore(int64_t step) const {
    return cursor.samples + (step - 1 - cursor.step) * global_batch();
  }
};

// kInvalidArgument that names the first number no run can do with, such as a micro-batch of none.
// What has a check of its own (optimizer, schedule, loss scale, ...) is not looked at.
absl::Status ValidateTrainOptions(const TrainOptions& options);

}  // namespace spillway
