#include "engine/data/token_writer.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/base/status.h"
#include "io/base/unique_fd.h"

namespace spillway {
namespace {

constexpr size_t kFlushBytes = 1 << 20;

}  // namespace

absl::Status TokenWriter::Append(const std::vector<uint32_t>& tokens, uint32_t flags,
                                 uint32_t first_flags) {
  for (const uint32_t token : tokens) {
    const uint32_t value = token | flags | std::exchange(first_flags, 0);
    buffer_.append(reinterpret_cast<const char*>(&value), static_cast<size_t>(width_bytes_));
    if (buffer_.size() >= kFlushBytes) RETURN_IF_ERROR(Flush());
  }
  tokens_ += static_cast<int64_t>(tokens.size());
  return absl::OkStatus();
}

absl::Status TokenWriter::Flush() {
  const char* data = buffer_.data();
  size_t left_bytes = buffer_.size();
  while (left_bytes > 0) {
    const ssize_t written = RetryOnSignal([&] { return ::write(fd_, data, left_bytes); });
    if (written <= 0) return ErrnoStatus(written < 0 ? errno : EIO, what_);
    data += written;
    left_bytes -= static_cast<size_t>(written);
  }
  buffer_.clear();
  return absl::OkStatus();
}

}  // namespace spillway
