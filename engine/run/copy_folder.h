// The folder of one copy of a commit (engine/run/commit_copies.h): looked through before it is
// used, and removed file by file, without following anything. Any thread.
//
// `parent` is the directory of the copies, ours alone; `name` a folder in it. kFailedPrecondition
// or kPermissionDenied, with what it is and where, for a folder that is a link, and for everything
// in it that no copy has (a link, a pipe, a file of another user or with another name elsewhere, an
// unknown name).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "io/own_directory.h"

namespace spillway {

// Nothing is wrong where there is no such folder.
absl::Status CheckCopyFolder(const OwnDirectory& parent, const std::string& name);

// The manifest first, of several ranks the first one's: without it what is left is no commit.
// Checks everything before anything goes, so that what is refused is still whole.
absl::Status RemoveCopyFolder(const OwnDirectory& parent, const std::string& name);

}  // namespace spillway
