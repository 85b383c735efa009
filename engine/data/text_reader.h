// A file read from its start to its end, piece by piece.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

// Calls `take` for each piece, in order; its first error ends the reading. Symbolic
// links are followed, pipes are not (a text may be read twice).
// kNotFound for a missing file, kInvalidArgument for what is not a plain file.
absl::Status ReadInPieces(const std::string& path,
                          const std::function<absl::Status(absl::string_view)>& take);

}  // namespace spillway
