#include "engine/process_setup.h"

#include <unistd.h>

#include <cstdlib>

namespace spillway {

void SleepingOpenMpThreads(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("OMP_WAIT_POLICY", "PASSIVE", 1);
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
