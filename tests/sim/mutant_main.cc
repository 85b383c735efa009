// Runs the seeds of a simulation on a build in which one line of the product is wrong
// (tests/sim/mutations.cmake, tests/cluster/mutations.cmake).
//
//   MUTANT [EXPECTED]    exit code 0 when a seed notices, and says EXPECTED where that is given
//   MUTANT --control     of a build in which nothing is wrong: exit code 0 when none notices
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/cluster/cluster_seeds.h"
#include "tests/sim/sim_seeds.h"

namespace {

// Only what hangs takes as long, on however busy a machine.
constexpr unsigned kSeconds = 1200;

struct Outcome {
  bool noticed = false;
  std::string said;  // the seed's failure, or the check's that ended it
};

// In a process of its own: a check of the product that fails has noticed, too.
Outcome RunSeeds(uint64_t first, uint64_t count) {
  std::fflush(nullptr);
  int ends[2];
  if (pipe(ends) != 0) std::exit(2);
  const pid_t child = fork();
  if (child < 0) std::exit(2);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    alarm(kSeconds);
    const std::string failure = SPILLWAY_RUN_SEEDS(first, count);
    std::fputs(failure.c_str(), stderr);
    _exit(failure.empty() ? 0 : 1);
  }
  close(ends[1]);
  Outcome outcome;
  char piece[4096];
  for (ssize_t got; (got = read(ends[0], piece, sizeof(piece))) > 0;) {
    outcome.said.append(piece, got);
  }
  close(ends[0]);
  int status = 0;
  if (waitpid(child, &status, 0) != child) std::exit(2);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
    std::printf("not done within %u s\n", kSeconds);
    std::exit(2);
  }
  outcome.noticed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  return outcome;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string expected = argc > 1 ? argv[1] : "";
  const bool control = expected == "--control";
  // The control shows that this program notices nothing by itself; spillway_sim_test has the seeds.
  const uint64_t seeds = control ? 1000 : 10000;
  const Outcome outcome = RunSeeds(0, seeds);
  std::printf("%s\n", outcome.said.c_str());
  if (outcome.noticed == control) {
    std::printf(control ? "a seed noticed something where nothing is wrong\n"
                        : "none of %llu seeds noticed\n",
                static_cast<unsigned long long>(seeds));
    return 1;
  }
  if (!control && outcome.said.find(expected) == std::string::npos) {
    std::printf("noticed, but not for the reason expected: %s\n", expected.c_str());
    return 1;
  }
  std::puts(control ? "nothing noticed" : "noticed");
  return 0;
}
