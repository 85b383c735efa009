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

// Parses a line of metrics.jsonl or eval.jsonl: an object with an integer "step". Null if it is not
// a row, like a line cut short by a kill. Pure.
nlohmann::json ParseRow(absl::string_view line);

// Calls `visit` with every row of the file and the offset of its line's end; one line is in memory
// at a time. Lines that are not rows are skipped. kNotFound if there is no file.
absl::Status ReadRows(const std::string& path,
                      const std::function<void(const nlohmann::json& row, int64_t end)>& visit,
                      FileSystem& files = FileSystem::Real());

// Appends lines to a file in OUTPUT. One thread.
class MetricsLog {
 public:
  // Keeps the rows of steps up to `last_step` (the past of a resumed run) and drops the others, so
  // that each step appears once. Calls `visit` with every row kept.
  static absl::StatusOr<std::unique_ptr<MetricsLog>> Open(
      const std::string& path, int64_t last_step,
      const std::function<void(const nlohmann::json& row)>& visit = {},
      FileSystem& files = FileSystem::Real());

  // Step of the last row in the file at Open, kept or not; -1: none.
  int64_t step_before() const { return step_before_; }

  absl::Status Append(const nlohmann::json& row);
  // Makes the appended rows durable.
  absl::Status Sync() { return file_->Sync(); }

 private:
  MetricsLog(std::unique_ptr<File> file, uint64_t size_bytes, int64_t step_before)
      : file_(std::move(file)), size_bytes_(size_bytes), step_before_(step_before) {}

  const std::unique_ptr<File> file_;
  uint64_t size_bytes_;
  const int64_t step_before_;
};

}  // namespace spillway
