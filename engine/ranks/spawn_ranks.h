// --ranks N without a launcher: this process starts the ranks, all on this machine, and waits
// for them. It does nothing else then.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/ranks/launch_environment.h"

namespace spillway {

struct SpawnOptions {
  std::string program;                 // a path
  std::vector<std::string> arguments;  // its argv, the name included
  EnvironmentMap environment;          // each rank's own variables come on top
  int ranks = 1;
  // After one rank has failed: how long the others may take to end by themselves, and how long
  // again after SIGTERM, before SIGKILL.
  double grace_seconds = 10;
  // A second signal of the same kind within this time is the same one, sent to a process and then
  // to its group.
  double same_signal_seconds = 1;
};

// This program once more: its path, arguments and environment.
absl::StatusOr<SpawnOptions> SpawnThisProgram(int ranks);

// Starts the ranks and returns when all have ended, with the exit code of them all: the code of
// the first that failed (1 where a signal ended it, which is logged, or for
// no reason with a code of its own: then that of a later one that has), 75 where all ended with 0
// or 75 and not all with 0, else 0. An error where they cannot be started: none is left then.
//
// Every rank has RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR
// (127.0.0.1), MASTER_PORT, SPILLWAY_LAUNCHER=ranks and a new SPILLWAY_SECRET; rank 0 also
// SPILLWAY_MASTER_SOCKET, bound to that port, which is a free one. Rank 0 keeps stdout and stderr;
// what others print comes out on stderr, in whole lines with "rank 3: " in front. SIGTERM, SIGINT,
// SIGUSR1 and SIGHUP (but where that is ignored) are passed on to all, also one that StopSignal has
// received before; ranks start with these blocked, until their own StopSignal takes them. At
// SIGTSTP all ranks stop, and this process, and go on with it. Ranks are process groups of their
// own, so that what a terminal sends comes by this way alone, and die with this process however it
// ends. REQUIRES: one thread in this process, which stays: the ranks die with the thread that
// started them; standard input, output and error are open.
absl::StatusOr<int> SpawnRanks(const SpawnOptions& options);

}  // namespace spillway
