// Event files that TensorBoard reads (--tensorboard DIR): scalars by step.
//
// A file is a sequence of records: a length, the masked CRC-32C of the length, a protocol buffer
// (tensorflow.Event) and its masked CRC-32C. docs/REPORT.md has the tags. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

class TensorBoardWriter {
 public:
  using Scalars = std::vector<std::pair<absl::string_view, double>>;  // (tag, value)
  // Seconds since 1970.
  using Clock = std::function<double()>;

  // Creates `directory` (and its parents) if missing; an error names it and --tensorboard.
  static absl::Status PrepareDirectory(const std::string& directory);

  // Opens a new file in `directory`. `first_step` is the first step that will be written:
  // TensorBoard ignores events of it and of later steps in earlier files, so that a resumed run
  // shows each step once.
  static absl::StatusOr<std::unique_ptr<TensorBoardWriter>> Open(const std::string& directory,
                                                                 int64_t first_step,
                                                                 Clock clock = SystemClock());
  ~TensorBoardWriter();
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;

  const std::string& path() const { return path_; }

  // Buffered for a few seconds; values that are not finite are left out. If a write fails, this
  // call returns the error, and nothing is written after it.
  absl::Status Write(int64_t step, const Scalars& scalars);
  absl::Status Flush();

  static Clock SystemClock();

 private:
  TensorBoardWriter(std::string path, int fd, Clock clock)
      : path_(std::move(path)), fd_(fd), clock_(std::move(clock)) {}
  void AddEvent(const std::string& event);

  const std::string path_;
  const int fd_;
  const Clock clock_;
  std::string buffer_;  // whole records
  double flushed_ = 0;
  bool failed_ = false;
};

}  // namespace spillway
