#include "engine/data/scratch_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/file_system.h"

namespace spillway {

namespace {

constexpr uint64_t kChecksumBytes = sizeof(uint64_t);
constexpr uint64_t kPayloadBytes = ScratchFile::kBlockBytes - kChecksumBytes;
constexpr uint64_t kWriteBytes = 16 * ScratchFile::kBlockBytes;

}  // namespace

absl::Status ReadAt(int fd, const std::string& path, uint64_t offset_bytes, char* out,
                    uint64_t size_bytes) {
  uint64_t done_bytes = 0;
  while (done_bytes < size_bytes) {
    const ssize_t got = RetryOnSignal([&] {
      return ::pread(fd, out + done_bytes, size_bytes - done_bytes,
                     static_cast<off_t>(offset_bytes + done_bytes));
    });
    if (got < 0) return ErrnoStatus(errno, absl::StrCat("read ", path));
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path, ": has become shorter while it was in use"));
    }
    done_bytes += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

absl::StatusOr<ScratchFile> ScratchFile::Create(absl::string_view directory) {
  ASSIGN_OR_RETURN(UniqueFd fd, CreateNamelessFile(directory, "a temporary token file"));
  ASSIGN_OR_RETURN(const uint64_t salt, FileSystem::Real().RandomNumber());
  return ScratchFile(std::move(fd), absl::StrCat("a temporary file in ", directory), salt);
}

uint64_t ScratchFile::ChecksumOf(uint64_t block, const char* data, uint64_t size_bytes) const {
  return Checksum({.tile = block, .generation = salt_}, data, size_bytes);
}

// Appends the checksum of the current block.
void ScratchFile::EndBlock() {
  const uint64_t sum =
      ChecksumOf(blocks_, held_.data() + block_begin_, held_.size() - block_begin_);
  held_.append(reinterpret_cast<const char*>(&sum), kChecksumBytes);
  block_begin_ = held_.size();
  ++blocks_;
}

absl::Status ScratchFile::WriteHeld() {
  const int error = WriteAll(fd_.get(), held_.data(), held_.size());
  if (error != 0) return ErrnoStatus(error, absl::StrCat("write ", what_));
  held_.clear();
  block_begin_ = 0;
  return absl::OkStatus();
}

absl::Status ScratchFile::Append(const void* data, uint64_t size_bytes) {
  const char* from = static_cast<const char*>(data);
  size_bytes_ += size_bytes;
  while (size_bytes > 0) {
    const uint64_t room = kPayloadBytes - (held_.size() - block_begin_);
    const uint64_t n = std::min(room, size_bytes);
    held_.append(from, n);
    from += n;
    size_bytes -= n;
    if (n == room) EndBlock();
    if (held_.size() >= kWriteBytes && block_begin_ == held_.size()) RETURN_IF_ERROR(WriteHeld());
  }
  return absl::OkStatus();
}

absl::Status ScratchFile::Flush() {
  if (held_.size() > block_begin_) EndBlock();
  RETURN_IF_ERROR(WriteHeld());
  held_ = std::string();
  return absl::OkStatus();
}

absl::Status ScratchFile::Read(uint64_t offset_bytes, void* out, uint64_t size_bytes) const {
  SPILLWAY_CHECK(held_.empty() && offset_bytes <= size_bytes_ &&
                 size_bytes <= size_bytes_ - offset_bytes);
  std::array<char, kBlockBytes> buffer;
  char* to = static_cast<char*>(out);
  while (size_bytes > 0) {
    const uint64_t block = offset_bytes / kPayloadBytes, within = offset_bytes % kPayloadBytes;
    const uint64_t there = std::min(kPayloadBytes, size_bytes_ - block * kPayloadBytes);
    RETURN_IF_ERROR(
        ReadAt(fd_.get(), what_, block * kBlockBytes, buffer.data(), there + kChecksumBytes));
    uint64_t expected = 0;
    std::memcpy(&expected, buffer.data() + there, kChecksumBytes);
    const uint64_t found = ChecksumOf(block, buffer.data(), there);
    if (found != expected) {
      return WrongBytesError(absl::StrCat(
          what_, ": the bytes at offset ", block * kBlockBytes,
          " are not those that were written (checksum ", absl::Hex(found, absl::kZeroPad16),
          ", expected ", absl::Hex(expected, absl::kZeroPad16),
          "): the data that the run reads there are wrong; check that device and its kernel log. "
          "What was committed before is good, and --resume reads the data anew"));
    }
    const uint64_t n = std::min(size_bytes, there - within);
    std::memcpy(to, buffer.data() + within, n);
    to += n;
    offset_bytes += n;
    size_bytes -= n;
  }
  return absl::OkStatus();
}

absl::StatusOr<ScratchNumbers> ScratchNumbers::Create(absl::string_view directory) {
  ASSIGN_OR_RETURN(ScratchFile file, ScratchFile::Create(directory));
  return ScratchNumbers(std::move(file));
}

absl::Status ScratchNumbers::Append(int64_t number) {
  constexpr size_t kHeldNumbers = 64 << 10;
  held_.push_back(number);
  ++size_;
  return held_.size() < kHeldNumbers ? absl::OkStatus() : TakeHeld();
}

absl::Status ScratchNumbers::TakeHeld() {
  if (held_.empty()) return absl::OkStatus();
  const size_t size_bytes = held_.size() * sizeof(int64_t);
  const uint64_t pair[2] = {digest_, Checksum(held_.data(), size_bytes)};
  digest_ = Checksum(pair, sizeof(pair));
  RETURN_IF_ERROR(file_.Append(held_.data(), size_bytes));
  held_.clear();
  return absl::OkStatus();
}

absl::Status ScratchNumbers::Flush() {
  RETURN_IF_ERROR(TakeHeld());
  held_ = std::vector<int64_t>();
  return file_.Flush();
}

absl::Status ScratchNumbers::Read(int64_t first, int64_t count, int64_t* out) const {
  SPILLWAY_CHECK(held_.empty() && first >= 0 && count >= 0 && first <= size_ - count);
  return file_.Read(static_cast<uint64_t>(first) * sizeof(int64_t), out,
                    static_cast<uint64_t>(count) * sizeof(int64_t));
}

absl::StatusOr<ScratchRows> ScratchRows::Create(absl::string_view directory) {
  ASSIGN_OR_RETURN(ScratchNumbers numbers, ScratchNumbers::Create(directory));
  ASSIGN_OR_RETURN(ScratchNumbers begins, ScratchNumbers::Create(directory));
  return ScratchRows(std::move(numbers), std::move(begins));
}

absl::Status ScratchRows::Append(const std::vector<int64_t>& row) {
  RETURN_IF_ERROR(begins_.Append(numbers_.size()));
  for (const int64_t number : row) RETURN_IF_ERROR(numbers_.Append(number));
  return absl::OkStatus();
}

absl::Status ScratchRows::Flush() {
  RETURN_IF_ERROR(begins_.Append(numbers_.size()));
  RETURN_IF_ERROR(begins_.Flush());
  return numbers_.Flush();
}

absl::StatusOr<std::vector<int64_t>> ScratchRows::Read(int64_t row) const {
  SPILLWAY_CHECK(row >= 0 && row < size());
  int64_t ends[2];
  RETURN_IF_ERROR(begins_.Read(row, 2, ends));
  std::vector<int64_t> numbers(static_cast<size_t>(ends[1] - ends[0]));
  RETURN_IF_ERROR(numbers_.Read(ends[0], static_cast<int64_t>(numbers.size()), numbers.data()));
  return numbers;
}

std::string ScratchRows::digest() const {
  return absl::StrFormat("%016x-%016x", numbers_.digest(), begins_.digest());
}

}  // namespace spillway
