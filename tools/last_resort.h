// What nobody caught: memory or threads that the system does not give, met where no status can say
// so. It ends the program with a message and an exit code, and not with a crash.
#pragma once

#include "absl/status/status.h"

namespace spillway {

// Of the exception that is being handled: of std::bad_alloc what ends in exit code 3, of
// std::system_error its own. Any other is thrown on.
absl::Status StatusOfException();

// From now on the same is said where other threads, or destructors, end the program by one.
void ExplainTerminate();

}  // namespace spillway
