#include "engine/report/report_input.h"

#include <utility>

#include "engine/base/strict_json.h"
#include "engine/run/metrics_log.h"
#include "engine/run/run_state.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {

nlohmann::json ReadResolvedConfig(const std::string& output) {
  auto document = ReadStrictJson(output + "/config.resolved.json");
  return document.ok() && document->value.is_object() ? std::move(document->value)
                                                      : nlohmann::json();
}

absl::StatusOr<ReportInput> ReadReportInput(const std::string& output, RunRows* rows) {
  ReportInput input;
  input.output = output;
  ASSIGN_OR_RETURN(input.run, ReadRunDescription(output));
  RETURN_IF_ERROR(ReadRows(output + "/metrics.jsonl",
                           [&](const nlohmann::json& row, int64_t) { rows->AddStep(row); }));
  const absl::Status read =
      ReadRows(output + "/eval.jsonl",
               [&](const nlohmann::json& row, int64_t) { rows->AddEvaluation(row); });
  if (!read.ok() && !absl::IsNotFound(read)) return read;
  const absl::Status samples =
      ReadRows(output + "/samples.jsonl",
               [&](const nlohmann::json& row, int64_t) { rows->samples.Add(row); });
  if (!samples.ok() && !absl::IsNotFound(samples)) return samples;
  input.config = ReadResolvedConfig(output);
  input.has_commit = Exists(CommitManifestPath(output));
  input.rows = rows;
  if (auto timeline = ReadTimeline(output); timeline.ok()) {
    input.timeline = *std::move(timeline);
  } else if (!absl::IsNotFound(timeline.status())) {
    return timeline.status();
  }
  return input;
}

}  // namespace spillway
