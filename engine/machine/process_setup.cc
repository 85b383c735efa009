#include "engine/machine/process_setup.h"

#include <unistd.h>

#include <cstdlib>

namespace spillway {
namespace {

// Turns of a loop with a pause in it: some tenths of a millisecond.
constexpr char kSpinCount[] = "10000";

}  // namespace

void SleepingOpenMpThreads(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("OMP_WAIT_POLICY", "PASSIVE", 1);
  setenv("GOMP_SPINCOUNT", kSpinCount, /*overwrite=*/0);
  // By its own path: started as /proc/self/exe, the program would be called "exe" in ps and pkill.
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (size > 0) {
    path[size] = '\0';
    execv(path, argv);
  }
  // Still here: /proc is not there, or the file has gone. Slower, but right.
}

}  // namespace spillway
