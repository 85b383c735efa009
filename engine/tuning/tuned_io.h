// What `spillway tune` found, where it counts: for the swap paths of a run on this machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/estimate/machine_profile.h"
#include "engine/estimate/profile_file.h"
#include "io/io_engine.h"

namespace spillway {

// What of IoEngineOptions was said by a flag or the config file, and so is not tuned.
struct IoGiven {
  bool kind = false;
  bool block_bytes = false;
  bool depth = false;
  bool threads = false;
};

// A tuning that counts, or a line for the log about why there is one that does not ("": there
// is none at all, or profiles are off).
struct FoundTuning {
  std::optional<TunedEntry> entry;
  std::string why_not;
};

// Pure: `loaded` as read, `devices` below `paths`. A tuning is of all its paths together.
FoundTuning FindTuning(const LoadedProfile& loaded, const MachineIdentity& machine,
                       const std::vector<std::string>& paths,
                       const std::vector<BlockDevice>& devices, int64_t unix_seconds);

// Of this machine, now, from the profile's place; `{rank}` in a path is rank 0's. Says in the log
// why a tuning that is there does not count.
std::optional<TunedEntry> FindTuning(const std::vector<std::string>& swap_paths);

// Sets what was not given. `io->origin` says so in the engine's log line.
void ApplyTuning(const TunedEntry& entry, const IoGiven& given, IoEngineOptions* io);

// For striping: the part of the bytes that each swap path should take, by measured mixed rate;
// they add up to 1. Empty where nothing that counts is known of them. Logs nothing.
std::vector<double> TunedPathWeights(const std::vector<std::string>& swap_paths);

}  // namespace spillway
