// Handles uncaught exceptions: memory or threads that the system refuses where no status can be
// returned. Ends the program with a message and an exit code instead of a crash.
#pragma once

#include "absl/status/status.h"

namespace spillway {

// A status for the current exception: for std::bad_alloc one of exit code 3, for std::system_error
// its own. Others are rethrown.
absl::Status StatusOfException();

// Installs the same handling for exceptions in other threads, or in destructors.
void ExplainTerminate();

}  // namespace spillway
