// Applies the results of `spillway tune` to the swap paths of a run on this machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/estimate/machine_profile.h"
#include "engine/estimate/profile_file.h"
#include "io/io_engine.h"

namespace spillway {

// The members of IoEngineOptions that a flag or the config file sets, and tuning must not change.
struct IoGiven {
  bool kind = false;
  bool block_bytes = false;
  bool depth = false;
  bool threads = false;
};

// A valid tuning, or a line for the log that says why the one that exists is not valid ("": none
// exists, or profiles are off).
struct FoundTuning {
  std::optional<TunedEntry> entry;
  std::string why_not;
};

// Pure. `loaded`: the profile as read; `devices`: below `paths`. A tuning is for all its paths
// together.
FoundTuning FindTuning(const LoadedProfile& loaded, const MachineIdentity& machine,
                       const std::vector<std::string>& paths,
                       const std::vector<BlockDevice>& devices, int64_t unix_seconds);

// Reads the profile of this machine now; `{rank}` in a path means rank 0. The log says why an
// existing tuning is not valid.
std::optional<TunedEntry> FindTuning(const std::vector<std::string>& swap_paths);

// Sets the members that are not given. `io->origin` notes it for the engine's log line.
void ApplyTuning(const TunedEntry& entry, const IoGiven& given, IoEngineOptions* io);

// For striping: the part of the bytes that each swap path takes, by measured mixed rate; they add
// up to 1. Empty without valid measurements. Logs nothing.
std::vector<double> TunedPathWeights(const std::vector<std::string>& swap_paths);

}  // namespace spillway
