// metrics.jsonl and eval.jsonl: one JSON object a line, each step once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/step_forecast.h"
#include "nlohmann/json.hpp"

namespace spillway {

// One row of metrics.jsonl; the names and meanings are docs/FORMATS.md's.
struct StepMetrics {
  int64_t step = 0;
  double loss = 0;
  std::optional<double> grad_norm;
  double learning_rate = 0;
  int64_t tokens = 0;
  double seconds = 0;
  std::optional<double> loss_scale;
  bool skipped = false;
  bool deferred = false;
  uint64_t nvme_read_bytes = 0;
  uint64_t nvme_written_bytes = 0;
  double stall_disk_seconds = 0;
  double stall_update_seconds = 0;
  double busy_disk_seconds = 0;
  double busy_update_seconds = 0;
  double busy_compute_seconds = 0;
  double commit_seconds = 0;  // waited for the commit before this step; not part of `seconds`
  uint64_t peak_device_bytes = 0;
  uint64_t peak_host_bytes = 0;
  uint64_t peak_rss_bytes = 0;
  // What was predicted before step 1; the same in every row. None: nothing was.
  std::optional<StepForecast> forecast;
  double binding_seconds = 0;  // busy time of what binds each phase, in that phase
};

nlohmann::json ToJson(const StepMetrics& metrics);

// {"forward": "disk", "backward": "compute", "flush": "disk"}.
nlohmann::json BindingJson(const StepForecast& forecast);

// Appends lines to a file in the output directory. One thread.
class MetricsLog {
 public:
  // Keeps what is there of steps up to `last_step` (what a resumed run has behind it)
  // and drops the rest, so that each step is there once.
  static absl::StatusOr<std::unique_ptr<MetricsLog>> Open(const std::string& path,
                                                          int64_t last_step);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  absl::Status Append(const nlohmann::json& row);
  // Makes what was appended durable.
  absl::Status Sync();

 private:
  MetricsLog(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
};

}  // namespace spillway
