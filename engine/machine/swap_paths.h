// Validates the swap paths of a user, and warns about unsuitable ones.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "io/file_system.h"

namespace spillway {

// Replaces `{rank}` in a path by the rank's number on its machine, so that each rank may have its
// own drive: "/nvme{rank}" is /nvme0, /nvme1, ...
std::string SwapPathOfRank(const std::string& path, int local_rank);

// kNotFound, kInvalidArgument or kPermissionDenied, naming the path, where one of `parents`
// (absolute) is missing, given twice, no directory or not writable.
absl::Status CheckSwapParents(const std::vector<std::string>& parents,
                              FileSystem& files = FileSystem::Real());

// Warns of a path in memory (tmpfs), on a network, in a container's layers, or where other users
// could replace directories.
void WarnOfSwapParents(const std::vector<std::string>& parents);

// OK if the file system of `path`, which need not exist, takes files; kInvalidArgument, "FLAG PATH
// cannot be made: ...", for a pseudo file system of the kernel.
absl::Status CheckTakesFiles(absl::string_view flag, const std::string& path);

}  // namespace spillway
