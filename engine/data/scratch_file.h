// Files for temporary data of a run: they have no name (io/file.h), so nothing is left behind.
// Every block has a checksum that each read verifies: a run that reads its samples here in every
// step must not learn from wrong bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "io/base/unique_fd.h"

namespace spillway {

// Reads at an offset; `path` names the file in errors; kDataLoss if it ends before.
absl::Status ReadAt(int fd, const std::string& path, uint64_t offset_bytes, char* out,
                    uint64_t size_bytes);

// Bytes in a file without a name: first all are appended, then any may be read. Movable. Appending:
// one thread.
class ScratchFile {
 public:
  // Size on the drive, with the checksum at the end. Blocks are read whole, so this is the cost of
  // a small read.
  static constexpr uint64_t kBlockBytes = 16 << 10;

  static absl::StatusOr<ScratchFile> Create(absl::string_view directory);

  absl::Status Append(const void* data, uint64_t size_bytes);
  // Call after the last Append.
  absl::Status Flush();

  uint64_t size_bytes() const { return size_bytes_; }
  // After Flush; any thread. kDataLoss, with the offset, if the bytes differ from the appended
  // ones. REQUIRES: they exist.
  absl::Status Read(uint64_t offset_bytes, void* out, uint64_t size_bytes) const;

 private:
  ScratchFile(UniqueFd fd, std::string what, uint64_t salt)
      : fd_(std::move(fd)), what_(std::move(what)), salt_(salt) {}
  uint64_t ChecksumOf(uint64_t block, const char* data, uint64_t size_bytes) const;
  void EndBlock();
  absl::Status WriteHeld();

  UniqueFd fd_;
  std::string what_;   // for messages
  uint64_t salt_ = 0;  // distinguishes this file's blocks from old ones on the drive
  uint64_t size_bytes_ = 0;
  std::string held_;          // not yet written; starts with a block
  uint64_t block_begin_ = 0;  // in `held_`: start of the current block
  uint64_t blocks_ = 0;       // full blocks
};

// Numbers in a file without a name: first all are appended, then any may be read.
class ScratchNumbers {
 public:
  static absl::StatusOr<ScratchNumbers> Create(absl::string_view directory);

  absl::Status Append(int64_t number);
  // Call after the last Append.
  absl::Status Flush();

  int64_t size() const { return size_; }
  // Numbers [first, first + count). After Flush; any thread. REQUIRES: they exist.
  absl::Status Read(int64_t first, int64_t count, int64_t* out) const;
  // Digest of all numbers. After Flush.
  uint64_t digest() const { return digest_; }

 private:
  explicit ScratchNumbers(ScratchFile file) : file_(std::move(file)) {}
  absl::Status TakeHeld();

  ScratchFile file_;
  int64_t size_ = 0;
  uint64_t digest_ = 0;
  std::vector<int64_t> held_;  // not yet in the file
};

// Rows of numbers of any length, stored in the same way.
class ScratchRows {
 public:
  static absl::StatusOr<ScratchRows> Create(absl::string_view directory);

  absl::Status Append(const std::vector<int64_t>& row);
  // Call after the last Append.
  absl::Status Flush();

  // After Flush, like the methods below; any thread.
  int64_t size() const { return begins_.size() - 1; }
  // REQUIRES: it exists.
  absl::StatusOr<std::vector<int64_t>> Read(int64_t row) const;
  // Digest of all numbers.
  std::string digest() const;

 private:
  ScratchRows(ScratchNumbers numbers, ScratchNumbers begins)
      : numbers_(std::move(numbers)), begins_(std::move(begins)) {}

  ScratchNumbers numbers_;
  ScratchNumbers begins_;  // [row] its first number, and at the end the number of numbers
};

}  // namespace spillway
