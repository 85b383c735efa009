// metrics.jsonl and eval.jsonl: one JSON object a line, each step once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "io/file_system.h"
#include "nlohmann/json.hpp"

namespace spillway {

// The row in one line of metrics.jsonl or eval.jsonl: an object with an integer "step". Null
// where there is none, as in a line cut short by a kill. Pure.
nlohmann::json ParseRow(absl::string_view line);

// Calls `visit` with every row of the file, and where in the file its line ends; one line is
// in memory at a time. Lines that are no rows are passed over. kNotFound when there is no file.
absl::Status ReadRows(const std::string& path,
                      const std::function<void(const nlohmann::json& row, int64_t end)>& visit,
                      FileSystem& files = FileSystem::Real());

// Appends lines to a file in the output directory. One thread.
class MetricsLog {
 public:
  // Keeps what is there of steps up to `last_step` (what a resumed run has behind it)
  // and drops the rest, so that each step is there once. Calls `visit` with every row kept.
  static absl::StatusOr<std::unique_ptr<MetricsLog>> Open(
      const std::string& path, int64_t last_step,
      const std::function<void(const nlohmann::json& row)>& visit = {},
      FileSystem& files = FileSystem::Real());

  // Of the last row that was there, kept or not; -1: there was none.
  int64_t step_before() const { return step_before_; }

  absl::Status Append(const nlohmann::json& row);
  // Makes what was appended durable.
  absl::Status Sync() { return file_->Sync(); }

 private:
  MetricsLog(std::unique_ptr<File> file, uint64_t size_bytes, int64_t step_before)
      : file_(std::move(file)), size_bytes_(size_bytes), step_before_(step_before) {}

  const std::unique_ptr<File> file_;
  uint64_t size_bytes_;
  const int64_t step_before_;
};

}  // namespace spillway
