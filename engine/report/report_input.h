// What a report is made of, and reading it from the files of a run.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/report/report_series.h"
#include "engine/report/run_description.h"
#include "engine/report/step_timeline.h"
#include "nlohmann/json.hpp"

namespace spillway {

struct ReportInput {
  std::string output;  // the run's directory, as a title where the configuration names no model
  RunDescription run;
  nlohmann::json config;  // config.resolved.json; null where there is none
  const RunRows* rows = nullptr;
  std::optional<StepTimeline> timeline;
  double now = 0;           // seconds since 1970: when the report is made
  bool has_commit = false;  // OUTPUT has one, from which --resume goes on
};

// What the files in `output` say of a run: run.json, the rows, the configuration. kNotFound
// or kInvalidArgument names the file that is missing or damaged. `rows` is filled, and must
// outlive what is returned.
absl::StatusOr<ReportInput> ReadReportInput(const std::string& output, RunRows* rows);

// config.resolved.json of a run; null where there is none or it is damaged.
nlohmann::json ReadResolvedConfig(const std::string& output);

}  // namespace spillway
