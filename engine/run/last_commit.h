// Reads the last commit of a run that may be active: its next commit but one overwrites these
// tiles, so a slow reader finds other bytes, and must start again.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "io/file_system.h"

namespace spillway {

// Calls `read`, which opens the last commit of `output` and reads it, and repeats the call if it
// found wrong or missing bytes and there is a newer commit. `output` may be anything: without a
// commit `read` is called once. kUnavailable if the run commits faster than `read` ends, several
// times in a row. Effects of a failed `read` must be discarded.
absl::Status ReadLastCommit(const std::string& output, const std::function<absl::Status()>& read,
                            FileSystem& files = FileSystem::Real());

}  // namespace spillway
