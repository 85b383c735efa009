// Runs the seeds of a simulation, or unit tests, on a build in which one line of the product is
// wrong (tests/sim/mutations.cmake, tests/cluster/cluster_mutants.cmake).
//
//   MUTANT REASON       exit code 0 when that is noticed, and a line of what is said then matches
//                       the regular expression REASON
//   MUTANT --control    of a build in which nothing is wrong: exit code 0 when nothing is noticed
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/cluster/cluster_seeds.h"
#include "tests/sim/mutant_tests.h"
#include "tests/sim/sim_seeds.h"

namespace {

// Where none is defined: a definition would be one more than those that headers are precompiled
// with.
#ifndef SPILLWAY_RUN_SEEDS
#define SPILLWAY_RUN_SEEDS spillway::RunSimSeeds
#endif

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
  if (WIFSIGNALED(status)) absl::StrAppend(&outcome.said, "\nended by signal ", WTERMSIG(status));
  return outcome;
}

bool AnyLineMatches(const std::string& said, const std::string& reason) {
  const std::regex expression(reason);
  for (absl::string_view line : absl::StrSplit(said, '\n')) {
    if (std::regex_search(line.begin(), line.end(), expression)) return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string reason = argv[1];
  const bool control = reason == "--control";
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
  if (!control && !AnyLineMatches(outcome.said, reason)) {
    std::printf("noticed, but not for the reason expected: %s\n", reason.c_str());
    return 1;
  }
  std::puts(control ? "nothing noticed" : "noticed");
  return 0;
}
