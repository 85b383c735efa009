// --ranks N without a launcher: this process starts the ranks on this machine, waits for them, and
// does nothing else.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/ranks/launch_environment.h"

namespace spillway {

struct SpawnOptions {
  std::string program;                 // path
  std::vector<std::string> arguments;  // argv, including the name
  EnvironmentMap environment;          // each rank's own variables are added
  int ranks = 1;
  // After one rank has failed: time in which the others may end by themselves, and again the time
  // between SIGTERM and SIGKILL.
  double grace_seconds = 10;
  // Signals of one kind within this time count as one, sent to a process and then to its group.
  double same_signal_seconds = 1;
};

// The path, arguments and environment of this program.
absl::StatusOr<SpawnOptions> SpawnThisProgram(int ranks);

// Starts the ranks and returns their exit code when all have ended. It is that of the first rank
// that failed (1 if a signal ended it, which is logged, or if it gave no reason of its own; then
// the code of a later rank with a reason); 75 if all ended with 0 or 75 and not all with 0; else 0.
// If they cannot be started it returns an error and no rank remains.
//
// Every rank has RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR
// (127.0.0.1), MASTER_PORT, SPILLWAY_LAUNCHER=ranks and a new SPILLWAY_SECRET; rank 0 also has
// SPILLWAY_MASTER_SOCKET, bound to that free port. Rank 0 keeps stdout and stderr; the others'
// output is written to stderr, in whole lines with "rank 3: " in front. SIGTERM, SIGINT, SIGUSR1
// and SIGHUP (unless ignored) are passed on to all, also one that StopSignal received before; ranks
// start with these blocked until their own StopSignal handles them. SIGTSTP stops all ranks and
// this process, which continue together. Each rank is a process group of its own, so that it gets a
// terminal's signals only from here, and dies with this process. REQUIRES: this process has one
// thread, which stays (the ranks die with it); standard input, output and error are open.
absl::StatusOr<int> SpawnRanks(const SpawnOptions& options);

}  // namespace spillway
