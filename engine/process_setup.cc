#include "engine/process_setup.h"

#include <unistd.h>

#include <cstdlib>

namespace spillway {

void SleepingOpenMpThreads(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("OMP_WAIT_POLICY", "PASSIVE", 1);
  execv("/proc/self/exe", argv);
  // Still here: /proc is not there. Slower, but right.
}

}  // namespace spillway
