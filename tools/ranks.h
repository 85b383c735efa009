// What train does about ranks before it trains: which one it is, or starting them.
#pragma once

#include "absl/status/statusor.h"
#include "engine/config/run_config.h"
#include "engine/ranks/launch_environment.h"
#include "tools/commands.h"

namespace spillway {

// From this process's environment and --ranks. Sets up what a run's process has to the end: how it
// takes signals (StopSignal; a log that nobody reads any more is no reason to end), the log of a
// rank, and SetLocalVariables.
absl::StatusOr<Launch> FindLaunch(const TrainFlags& flags);

// What every rank runs with. kUnimplemented for what ranks cannot do together yet.
absl::StatusOr<RunConfig> ResolveForRanks(const TrainFlags& flags, const Launch& launch);

// --ranks N: starts them, each with this command line, and ends as they do. What is wrong with
// the flags is said once, before. REQUIRES: launch.to_be_spawned().
CommandOutcome StartRanks(const TrainFlags& flags, const Launch& launch);

// --hostfile: prints the mpirun command that does it on stdout or, with --launch, becomes it.
CommandOutcome StartOverHosts(const TrainFlags& flags);

}  // namespace spillway
