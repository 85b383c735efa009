#include "io/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace spillway {

void CheckFailed(const char* file, int line, const char* condition) {
  // Plain stdio: whatever broke may have broken the logger too.
  std::fprintf(stderr, "spillway: internal error: %s:%d: check failed: %s\n", file, line,
               condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace spillway
