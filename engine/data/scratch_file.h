// Files for data that is made while a run is there: they have no name (io/file.h), so nothing is
// left behind, whatever happens. Every block has a checksum, which is verified whenever it is read:
// a run that reads its samples here in every step must not learn from other bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "io/base/unique_fd.h"

namespace spillway {

// `path` names the file in errors; kDataLoss where it ends before.
absl::Status ReadAt(int fd, const std::string& path, uint64_t offset_bytes, char* out,
                    uint64_t size_bytes);

// Bytes in such a file: first all are appended, then any may be read. Movable. Appending: one
// thread.
class ScratchFile {
 public:
  // On the drive, with the checksum at its end. A block is read whole, so its size is what a small
  // read costs.
  static constexpr uint64_t kBlockBytes = 16 << 10;

  static absl::StatusOr<ScratchFile> Create(absl::string_view directory);

  absl::Status Append(const void* data, uint64_t size_bytes);
  // After the last one.
  absl::Status Flush();

  uint64_t size_bytes() const { return size_bytes_; }
  // After Flush; any thread. kDataLoss, with the offset, where the bytes are not those that were
  // appended. REQUIRES: they exist.
  absl::Status Read(uint64_t offset_bytes, void* out, uint64_t size_bytes) const;

 private:
  ScratchFile(UniqueFd fd, std::string what, uint64_t salt)
      : fd_(std::move(fd)), what_(std::move(what)), salt_(salt) {}
  uint64_t ChecksumOf(uint64_t block, const char* data, uint64_t size_bytes) const;
  void EndBlock();
  absl::Status WriteHeld();

  UniqueFd fd_;
  std::string what_;   // for messages
  uint64_t salt_ = 0;  // what a drive kept of another file does not pass for this one's
  uint64_t size_bytes_ = 0;
  std::string held_;          // not yet written, beginning with a block
  uint64_t block_begin_ = 0;  // in `held_`, of the block that is being filled
  uint64_t blocks_ = 0;       // that are full
};

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
  explicit ScratchNumbers(ScratchFile file) : file_(std::move(file)) {}
  absl::Status TakeHeld();

  ScratchFile file_;
  int64_t size_ = 0;
  uint64_t digest_ = 0;
  std::vector<int64_t> held_;  // not yet in the file
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
