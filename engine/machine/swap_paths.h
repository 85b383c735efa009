// Swap paths as a user gives them: whether they can be used, and what to say of them first.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "io/file_system.h"

namespace spillway {

// `{rank}` in a path stands for the rank's number on its machine, so that each may have a drive
// of its own: "/nvme{rank}" is /nvme0, /nvme1, ...
std::string SwapPathOfRank(const std::string& path, int local_rank);

// kNotFound, kInvalidArgument or kPermissionDenied, naming the path, where one of `parents`
// (absolute) is missing, given twice, no directory or not writable.
absl::Status CheckSwapParents(const std::vector<std::string>& parents,
                              FileSystem& files = FileSystem::Real());

// Warns of a path in memory (tmpfs), on a network, in a container's layers, or where others
// could replace directories.
void WarnOfSwapParents(const std::vector<std::string>& parents);

// OK where files can be made below `path`, which need not exist, as far as its filesystem is
// concerned; kInvalidArgument, "FLAG PATH cannot be made: ...", in one of the kernel's own.
absl::Status CheckTakesFiles(absl::string_view flag, const std::string& path);

}  // namespace spillway
