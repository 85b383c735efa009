// Options for output and measures of a run. Plain values.
#pragma once

#include <cstdint>
#include <string>

#include "engine/options/drive_wear.h"
#include "engine/options/run_origin.h"

namespace spillway {

// --trace and --trace-steps.
struct TraceOptions {
  std::string path;        // empty: no file
  int64_t first_step = 0;  // 0: the first step of this process
  int64_t steps = 10;
};

// The amount of training or evaluation data.
struct DatasetSize {
  std::string unit = "samples";  // the unit of a sample: "windows", "texts", "pictures", ...
  int64_t samples = 0;           // 0: no data, or unknown
  int64_t tokens = 0;            // tokens that the model reads in all samples; 0: none
  int64_t labels = 0;            // labels in the loss; 0: not counted
};

struct ReportOptions {
  RunOrigin origin;
  DatasetSize data_size, evaluation_size;
  std::string data_name;  // the files, for messages; "": unknown
  // Digest of the held-out data: evaluations with the same one are comparable.
  std::string evaluation_data;

  bool explain = false;  // log the whole plan, line by line

  int64_t eval_every = 0;         // 0: only at the end, when there is evaluation data
  double eval_part = 0;           // above 0: eval_every becomes this fraction of the run's steps
  bool eval_every_epoch = false;  // eval_every becomes the steps of an epoch
  std::string metric = "loss";    // selects the best evaluation (MeasureKinds)

  std::string tensorboard;  // directory for event files; empty: none

  TraceOptions trace;

  // Limit of the run's writes to drives, over all its processes; 0: unlimited.
  uint64_t max_bytes_written = 0;
  double drive_bytes_per_day = kDriveBytesPerDay;  // rated writes per day
};

}  // namespace spillway
