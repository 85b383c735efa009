#include "engine/data/token_writer.h"

#include <utility>

#include "io/base/status.h"

namespace spillway {

absl::Status TokenWriter::Append(const std::vector<uint32_t>& tokens, uint32_t flags,
                                 uint32_t first_flags) {
  constexpr size_t kFlushBytes = 1 << 20;
  for (const uint32_t token : tokens) {
    const uint32_t value = token | flags | std::exchange(first_flags, 0);
    buffer_.append(reinterpret_cast<const char*>(&value), static_cast<size_t>(width_bytes_));
    if (buffer_.size() >= kFlushBytes) RETURN_IF_ERROR(Flush());
  }
  tokens_ += static_cast<int64_t>(tokens.size());
  return absl::OkStatus();
}

absl::Status TokenWriter::Flush() {
  RETURN_IF_ERROR(write_(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

}  // namespace spillway
