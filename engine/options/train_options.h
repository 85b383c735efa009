// All options of a training run. engine/config/run_config.h resolves them for the program: flags
// win over the config file, the file over defaults. Plain values.
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
  std::string output;  // the run's directory, OUTPUT

  // Samples of one step, all ranks together.
  int64_t global_batch() const { return micro_batch * accumulate * ranks; }
  // Number of samples, over all epochs, before those of `step` (>= 1).
  int64_t SamplesBefore(int64_t step) const {
    return cursor.samples + (step - 1 - cursor.step) * global_batch();
  }
};

// kInvalidArgument for the first number that no run can have, such as a micro-batch of 0; the
// message names it. Options with their own checks (optimizer, schedule, loss scale, ...) are
// excluded.
absl::Status ValidateTrainOptions(const TrainOptions& options);

}  // namespace spillway
