// Tokens on their way into a file, as numbers of a fixed width.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace spillway {

// In files of our own, of 4 bytes a token: this one carries no loss; a sample begins with it.
inline constexpr uint32_t kWithoutLoss = uint32_t{1} << 31;
inline constexpr uint32_t kBeginsSample = uint32_t{1} << 30;

// Appends to a file with one write per megabyte. One thread; Flush at the end.
class TokenWriter {
 public:
  // `fd` stays the caller's; `what` names it in errors: "write /data/out.bin".
  // REQUIRES: width_bytes is 2 or 4, and tokens fit.
  TokenWriter(int fd, std::string what, int width_bytes)
      : fd_(fd), what_(std::move(what)), width_bytes_(width_bytes) {}

  // `flags` are joined with each token, `first_flags` with the first.
  absl::Status Append(const std::vector<uint32_t>& tokens, uint32_t flags = 0,
                      uint32_t first_flags = 0);
  absl::Status Flush();

  int64_t tokens() const { return tokens_; }

 private:
  const int fd_;
  const std::string what_;
  const int width_bytes_;
  int64_t tokens_ = 0;
  std::string buffer_;
};

}  // namespace spillway
