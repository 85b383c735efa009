// Reading the last commit of a run that may be going on: it writes over what the commit before its
// last one held, so whoever reads that meanwhile finds other bytes, and must look again.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "io/file_system.h"

namespace spillway {

// Calls `read`, which opens the last commit of `output` and reads it, and calls it again where it
// found wrong or missing bytes and there is another commit by now. `output` may be anything:
// without a commit there `read` is called once. kUnavailable where the run commits faster than
// `read` ends, several times in a row. Nothing that `read` did before it failed may count.
absl::Status ReadLastCommit(const std::string& output, const std::function<absl::Status()>& read,
                            FileSystem& files = FileSystem::Real());

}  // namespace spillway
