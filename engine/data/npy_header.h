// The offset and width of tokens in a file of raw numbers, and .npy headers. Format:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

struct TokenFormat {
  int width_bytes = 2;  // 1, 2, 4 or 8, little-endian
  bool is_signed = false;
  bool flagged = false;  // kWithoutLoss and kBeginsSample are flags, not part of the number
  uint64_t data_offset_bytes = 0;
  int64_t tokens = 0;
};

// Limit of a .npy header's length.
inline constexpr uint64_t kNpyHeadBytes = 128 << 10;

// Parses the header of a .npy file; `head` is its first bytes, at most kNpyHeadBytes.
// kInvalidArgument describes the problem; the caller adds the file.
absl::StatusOr<TokenFormat> ParseNpyHeader(absl::string_view head, uint64_t file_size_bytes);

}  // namespace spillway
