// Options for logs, evaluation, reports and traces, and limits of written bytes. Plain values.
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
  int64_t steps = 10;      // number of recorded steps
};

// Size of the training or evaluation data.
struct DatasetSize {
  std::string unit = "samples";  // kind of sample: "windows", "texts", "pictures", ...
  int64_t samples = 0;           // 0: no such data, or unknown
  int64_t tokens = 0;            // tokens that the model reads in all samples; 0: none
  int64_t labels = 0;            // labels that count in the loss; 0: not counted
};

struct ReportOptions {
  RunOrigin origin;
  DatasetSize data_size, evaluation_size;
  std::string data_name;        // names of the files, for messages; "": unknown
  std::string evaluation_data;  // digest of the held-out data: only equal ones are compared

  bool explain = false;  // log the whole plan with explanations

  int64_t eval_every = 0;         // steps; 0: only at the end, if there is evaluation data
  double eval_part = 0;           // if > 0, eval_every becomes this fraction of the run's steps
  bool eval_every_epoch = false;  // eval_every becomes an epoch's steps
  std::string metric = "loss";    // measure that decides the best evaluation, of MeasureKinds

  std::string tensorboard;  // directory for event files; empty: none

  TraceOptions trace;

  // Limit of the bytes written to the run's drives by all its processes; 0: none.
  uint64_t max_bytes_written = 0;
  double drive_bytes_per_day = kDriveBytesPerDay;  // rated bytes a drive may be written a day
};

}  // namespace spillway
