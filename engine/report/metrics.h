// metrics.jsonl and eval.jsonl: one JSON object a line, each step once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/estimate/step_forecast.h"
#include "nlohmann/json.hpp"
#include "swap/device/device_times.h"

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
  uint64_t to_device_bytes = 0;  // copied to a device with memory of its own, and from there
  uint64_t to_host_bytes = 0;
  uint64_t nvme_written_bytes = 0;
  double stall_disk_seconds = 0;
  double stall_update_seconds = 0;
  double busy_disk_seconds = 0;
  double busy_update_seconds = 0;         // of all workers together
  double busy_device_update_seconds = 0;  // that a separate device itself rounded and updated
  double busy_copy_seconds = 0;           // of a separate device's link, either way
  double stall_copy_seconds = 0;
  // With several ranks: sent by this one; exchanges under way; compute waited for other ranks.
  uint64_t collective_bytes = 0;
  double busy_collective_seconds = 0;
  double stall_collective_seconds = 0;
  CopyTime copies_to_device;  // of the mover's copies, each way by itself: no part of the row
  CopyTime copies_to_host;
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

// The row in one line of metrics.jsonl or eval.jsonl: an object with an integer "step". Null
// where there is none, as in a line cut short by a kill. Pure.
nlohmann::json ParseRow(absl::string_view line);

// One row of eval.jsonl.
struct EvaluationMetrics {
  int64_t step = 0;  // steps behind it; 0: before the first
  double loss = 0;
  int64_t tokens = 0;
  double seconds = 0;
  bool best = false;      // lower than every loss before it
  int64_t best_step = 0;  // of the lowest loss so far, this one's counted
};

nlohmann::json ToJson(const EvaluationMetrics& metrics);

// ", perplexity 12.34" for a log line; "" where e to the loss is no number.
std::string PerplexityText(double loss);

// Calls `visit` with every row of the file, and where in the file its line ends; one line is
// in memory at a time. Lines that are no rows are passed over. kNotFound when there is no file.
absl::Status ReadRows(const std::string& path,
                      const std::function<void(const nlohmann::json& row, int64_t end)>& visit);

// Appends lines to a file in the output directory. One thread.
class MetricsLog {
 public:
  // Keeps what is there of steps up to `last_step` (what a resumed run has behind it)
  // and drops the rest, so that each step is there once. Calls `visit` with every row kept.
  static absl::StatusOr<std::unique_ptr<MetricsLog>> Open(
      const std::string& path, int64_t last_step,
      const std::function<void(const nlohmann::json& row)>& visit = {});
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
