// Prepares train for ranks: finds this process's rank, or starts the ranks.
#pragma once

#include "absl/status/statusor.h"
#include "engine/config/run_config.h"
#include "engine/ranks/launch_environment.h"
#include "tools/commands.h"

namespace spillway {

// Reads this process's environment and --ranks. Sets up the process for the whole run: its signal
// handling (StopSignal; a closed log does not end it), the log of a rank, and SetLocalVariables.
absl::StatusOr<Launch> FindLaunch(const TrainFlags& flags);

// The config of every rank. kUnimplemented for settings that several ranks do not support yet.
absl::StatusOr<RunConfig> ResolveForRanks(const TrainFlags& flags, const Launch& launch);

// --ranks N: starts the ranks, each with this command line, and returns their outcome. Errors in
// the flags are reported once, before that. REQUIRES: launch.to_be_spawned().
CommandOutcome StartRanks(const TrainFlags& flags, const Launch& launch);

// --hostfile: prints the mpirun command on stdout or, with --launch, executes it.
CommandOutcome StartOverHosts(const TrainFlags& flags);

}  // namespace spillway
