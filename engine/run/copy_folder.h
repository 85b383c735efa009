// Checks the folder of one copy of a commit (engine/run/commit_copies.h) before it is used, and
// removes it file by file, without following links. Any thread.
//
// `parent` is the directory of the copies, which only this user may write; `name` a folder in it.
// kFailedPrecondition or kPermissionDenied, with its kind and path, for a folder that is a link,
// and for every entry that no copy has (a link, a pipe, a file of another user or with a hard link
// elsewhere, an unknown name).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "io/own_directory.h"

namespace spillway {

// OK if there is no such folder.
absl::Status CheckCopyFolder(const OwnDirectory& parent, const std::string& name);

// Removes the manifest first, with several ranks the first rank's: without it the rest is no
// commit. Checks everything before it removes anything, so that a refused folder stays complete.
absl::Status RemoveCopyFolder(const OwnDirectory& parent, const std::string& name);

}  // namespace spillway
