#include "engine/data/scratch_file.h"

#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "io/file.h"

namespace spillway {

absl::StatusOr<UniqueFd> CreateScratchFile(absl::string_view directory) {
  return CreateNamelessFile(directory, "a temporary token file");
}

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

absl::StatusOr<ScratchNumbers> ScratchNumbers::Create(absl::string_view directory) {
  ASSIGN_OR_RETURN(UniqueFd fd, CreateScratchFile(directory));
  return ScratchNumbers(std::move(fd), absl::StrCat("a temporary file in ", directory));
}

absl::Status ScratchNumbers::Append(int64_t number) {
  constexpr size_t kHeldNumbers = 64 << 10;
  held_.push_back(number);
  ++size_;
  return held_.size() < kHeldNumbers ? absl::OkStatus() : Flush();
}

absl::Status ScratchNumbers::Flush() {
  const char* data = reinterpret_cast<const char*>(held_.data());
  const size_t size_bytes = held_.size() * sizeof(int64_t);
  const uint64_t pair[2] = {digest_, Checksum(data, size_bytes)};
  const int error = WriteAll(fd_.get(), data, size_bytes);
  if (error != 0) return ErrnoStatus(error, absl::StrCat("write ", what_));
  if (!held_.empty()) digest_ = Checksum(pair, sizeof(pair));
  held_.clear();
  return absl::OkStatus();
}

absl::Status ScratchNumbers::Read(int64_t first, int64_t count, int64_t* out) const {
  SPILLWAY_CHECK(held_.empty() && first >= 0 && count >= 0 && first <= size_ - count);
  return ReadAt(fd_.get(), what_, static_cast<uint64_t>(first) * sizeof(int64_t),
                reinterpret_cast<char*>(out), static_cast<uint64_t>(count) * sizeof(int64_t));
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
