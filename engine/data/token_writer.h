// Writes tokens to a file as numbers of a fixed width.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

// Flags of tokens in our own files, of 4 bytes a token: carries no loss; starts a sample.
inline constexpr uint32_t kWithoutLoss = uint32_t{1} << 31;
inline constexpr uint32_t kBeginsSample = uint32_t{1} << 30;

// Calls `write` once per megabyte with the next bytes. One thread; Flush at the end.
class TokenWriter {
 public:
  using Write = std::function<absl::Status(absl::string_view bytes)>;

  // REQUIRES: width_bytes is 2 or 4, and tokens fit.
  TokenWriter(Write write, int width_bytes) : write_(std::move(write)), width_bytes_(width_bytes) {}

  // `flags` are added to each token, `first_flags` to the first.
  absl::Status Append(const std::vector<uint32_t>& tokens, uint32_t flags = 0,
                      uint32_t first_flags = 0);
  absl::Status Flush();

  int64_t tokens() const { return tokens_; }

 private:
  const Write write_;
  const int width_bytes_;
  int64_t tokens_ = 0;
  std::string buffer_;
};

}  // namespace spillway
