// Files for data that is made while a run is there: they have no name (io/file.h), so nothing is
// left behind, whatever happens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "io/base/unique_fd.h"

namespace spillway {

absl::StatusOr<UniqueFd> CreateScratchFile(absl::string_view directory);

// `path` names the file in errors; kDataLoss where it ends before.
absl::Status ReadAt(int fd, const std::string& path, uint64_t offset_bytes, char* out,
                    uint64_t size_bytes);

// Numbers in such a file: first all are appended, then any may be read.
class ScratchNumbers {
 public:
  static absl::StatusOr<ScratchNumbers> Create(absl::string_view directory);

  absl::Status Append(int64_t number);
  // After the last one.
  absl::Status Flush();

  int64_t size() const { return size_; }
  // Numbers [first, first + count). After Flush; any thread. REQUIRES: they exist.
  absl::Status Read(int64_t first, int64_t count, int64_t* out) const;
  // Of all numbers. After Flush.
  uint64_t digest() const { return digest_; }

 private:
  ScratchNumbers(UniqueFd fd, std::string what) : fd_(std::move(fd)), what_(std::move(what)) {}

  UniqueFd fd_;
  std::string what_;  // for messages
  int64_t size_ = 0;
  uint64_t digest_ = 0;
  std::vector<int64_t> held_;  // not yet written
};

// Rows of numbers, each of its own length, kept so.
class ScratchRows {
 public:
  static absl::StatusOr<ScratchRows> Create(absl::string_view directory);

  absl::Status Append(const std::vector<int64_t>& row);
  // After the last one.
  absl::Status Flush();

  // After Flush, as the rest; any thread.
  int64_t size() const { return begins_.size() - 1; }
  // REQUIRES: it exists.
  absl::StatusOr<std::vector<int64_t>> Read(int64_t row) const;
  // Changes with any number.
  std::string digest() const;

 private:
  ScratchRows(ScratchNumbers numbers, ScratchNumbers begins)
      : numbers_(std::move(numbers)), begins_(std::move(begins)) {}

  ScratchNumbers numbers_;
  ScratchNumbers begins_;  // [row], and behind the last one the number of numbers
};

}  // namespace spillway
