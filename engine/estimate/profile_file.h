// The file with the profiles of machines, and the rules for sharing it.
//
// The path is $SPILLWAY_PROFILE; without it $XDG_CACHE_HOME/spillway/profile.json, or
// ~/.cache/spillway/profile.json. SPILLWAY_PROFILE=off disables measuring, tuning and forecasts. A
// home may be shared by machines or copied from one to another: each has its own part of the file,
// and reads only that. Any thread and process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/estimate/machine_profile.h"

namespace spillway {

// `off`: no forecasts and tunings. path "": there is no place for the file.
struct ProfilePlace {
  bool off = false;
  std::string path;
};
// Reads the environment. A path that exists and is not a regular file (/dev/null) means off, which
// is logged once.
ProfilePlace FindProfile();

struct LoadedProfile {
  MachineProfile profile;  // of this machine; empty if there is none
  // Names of other machines that have a tuning in the file.
  std::vector<std::string> tuned_elsewhere;
  // Why the file could not be read, as a line for the log; "" if it was read, or does not exist.
  std::string problem;
};
LoadedProfile LoadProfile(const std::string& path, const MachineIdentity& machine);

// Merges the entries of `profile` into the file; the newer of two entries for the same thing stays,
// unless its time is after `now`, which means that a clock was wrong. A broken file is replaced, a
// link followed. kFailedPrecondition, without a change, if a newer Spillway wrote it; an error that
// names the path if it cannot be written.
absl::Status SaveProfile(const std::string& path, const MachineIdentity& machine,
                         const MachineProfile& profile,
                         int64_t now = absl::ToUnixSeconds(absl::Now()));

}  // namespace spillway
