// A lock on an open file that ends with its descriptor.
#pragma once

#include <sys/file.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

enum class LockKind { kExclusive, kShared };

// True when it was had, false when somebody else has it. Does not wait. flock, and where the
// filesystem has none (some network ones) a lock of fcntl's on the open file, which ends in
// the same way; kUnknown with the remedy where that is missing too. `flock` is for tests.
absl::StatusOr<bool> TryLockFile(int fd, LockKind kind, absl::string_view path,
                                 int (*flock)(int, int) = ::flock);

}  // namespace spillway
