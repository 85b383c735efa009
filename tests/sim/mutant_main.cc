// Runs the seeds of the simulation on a build in which one line of the product is wrong
// (tests/sim/mutations.cmake). Exit code 0 when a seed notices, 1 when none does.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/sim/sim_seeds.h"

namespace {

// In a process of its own: a check of the product that fails has noticed, too.
bool Notices(uint64_t first, uint64_t count) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) std::exit(2);
  if (child == 0) {
    alarm(250);
    const std::string failure = spillway::RunSimSeeds(first, count, nullptr);
    std::fputs(failure.c_str(), stderr);
    _exit(failure.empty() ? 0 : 1);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) std::exit(2);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
    std::puts("not done within 250 s");
    std::exit(2);
  }
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

}  // namespace

int main() {
  constexpr uint64_t kSeeds = 10000;
  if (Notices(0, kSeeds)) {
    std::puts("noticed");
    return 0;
  }
  std::printf("none of %llu seeds noticed\n", static_cast<unsigned long long>(kSeeds));
  return 1;
}
