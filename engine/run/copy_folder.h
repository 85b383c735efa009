// The folder of one copy of a commit (engine/run/commit_copies.h): looked through before it is
// used, and removed by descriptor, file by file, without following anything. Any thread.
//
// `parent_fd` is the open directory of the copies, ours alone; `name` a folder in it and
// `parent_path` for messages. kFailedPrecondition or kPermissionDenied, with what it is and
// where, for a folder that is a link, and for everything in it that no copy has (a link, a
// pipe, a file of another user or with another name elsewhere, an unknown name).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

// Nothing is wrong where there is no such folder.
absl::Status CheckCopyFolder(int parent_fd, absl::string_view parent_path, const std::string& name);

// The manifest first: without it what is left is no commit. Checks everything before anything
// goes, so that what is refused is still whole.
absl::Status RemoveCopyFolder(int parent_fd, absl::string_view parent_path,
                              const std::string& name);

}  // namespace spillway
