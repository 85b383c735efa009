// A file read from its start to its end, piece by piece.
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

// To read. Symbolic links are followed, pipes are not (a text may be read twice), and not waited
// for. kNotFound for a missing file, kInvalidArgument for what is not a plain file.
absl::StatusOr<PlainFile> OpenPlainFile(const std::string& path);

// Calls `take` for each piece, in order, without a UTF-8 byte order mark at the beginning; its
// first error ends the reading. Others as of OpenPlainFile; kCancelled at a signal (StopSignal).
absl::Status ReadInPieces(const std::string& path,
                          const std::function<absl::Status(absl::string_view)>& take);

}  // namespace spillway
