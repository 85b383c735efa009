// Reads a file sequentially in pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "io/base/unique_fd.h"

namespace spillway {

struct PlainFile {
  UniqueFd fd;
  uint64_t size_bytes = 0;
};

// Opens a file for reading. Links are followed; pipes are refused without waiting, because a text
// may be read twice. kNotFound for a missing file, kInvalidArgument for anything but a plain file.
absl::StatusOr<PlainFile> OpenPlainFile(const std::string& path);

// Calls `take` for each piece in order, without a leading UTF-8 byte order mark; its first error
// ends the reading. Other errors as in OpenPlainFile; kCancelled at a signal (StopSignal).
absl::Status ReadInPieces(const std::string& path,
                          const std::function<absl::Status(absl::string_view)>& take);

}  // namespace spillway
