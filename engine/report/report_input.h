// The data of a report, and its reader from the files of a run.
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
  std::string output;  // the run's directory; the title if the configuration names no model
  RunDescription run;
  nlohmann::json config;  // config.resolved.json; null if it is missing
  const RunRows* rows = nullptr;
  std::optional<StepTimeline> timeline;
  double now = 0;           // time of the report, in seconds since 1970
  bool has_commit = false;  // OUTPUT has one, from which --resume continues
};

// Reads run.json, the rows and the configuration in `output`. kNotFound or kInvalidArgument names
// the file that is missing or damaged. Fills `rows`, which must outlive the result.
absl::StatusOr<ReportInput> ReadReportInput(const std::string& output, RunRows* rows);

// config.resolved.json of a run; null if it is missing or damaged.
nlohmann::json ReadResolvedConfig(const std::string& output);

}  // namespace spillway
