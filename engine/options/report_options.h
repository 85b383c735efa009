// What a run tells, and what it is measured by. Plain values.
#pragma once

#include <cstdint>
#include <string>

#include "engine/options/drive_wear.h"
#include "engine/options/run_origin.h"

namespace spillway {

// --trace and --trace-steps.
struct TraceOptions {
  std::string path;        // empty: no file
  int64_t first_step = 0;  // 0: the first that this process takes
  int64_t steps = 10;
};

// How much data there is to learn from, or to evaluate on.
struct DatasetSize {
  std::string unit = "samples";  // what its samples are: "windows", "texts", "pictures", ...
  int64_t samples = 0;           // 0: there is no such data, or nobody has said
  int64_t tokens = 0;            // that the model reads of all of them; 0: it reads no tokens
  int64_t labels = 0;            // that count in the loss; 0: not counted
};

struct ReportOptions {
  RunOrigin origin;
  DatasetSize data_size, evaluation_size;
  std::string data_name;        // the files, for messages; "": none are known
  std::string evaluation_data;  // digest of the held-out data: which evaluations compare

  bool explain = false;  // the log has the whole plan, line by line

  int64_t eval_every = 0;         // 0: only at the end, when there is evaluation data
  double eval_part = 0;           // above 0: eval_every becomes this part of the run's steps
  bool eval_every_epoch = false;  // eval_every becomes an epoch's steps
  std::string metric = "loss";    // by which one is the best: of MeasureKinds

  std::string tensorboard;  // directory for event files; empty: none

  TraceOptions trace;

  // What the run may write to its drives in all its processes; 0: no limit.
  uint64_t max_bytes_written = 0;
  double drive_bytes_per_day = kDriveBytesPerDay;  // what a drive is rated to be written
};

}  // namespace spillway
