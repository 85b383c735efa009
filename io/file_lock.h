// A lock on an open file that ends with its descriptor.
#pragma once

#include <sys/file.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

enum class LockKind { kExclusive, kShared };

// Returns whether the lock was acquired; false if another process holds it. Does not wait. Uses
// flock, or, on filesystems without it (some network ones), an open file description lock of fcntl,
// which ends in the same way; kUnknown with the remedy if both are missing. `flock` is for tests.
absl::StatusOr<bool> TryLockFile(int fd, LockKind kind, absl::string_view path,
                                 int (*flock)(int, int) = ::flock);

}  // namespace spillway
