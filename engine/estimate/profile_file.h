// The file that machines' profiles are kept in, and how it is shared.
//
// It is $SPILLWAY_PROFILE; without it $XDG_CACHE_HOME/spillway/profile.json, or
// ~/.cache/spillway/profile.json. SPILLWAY_PROFILE=off: no measuring, no tuning, no forecasts.
// A home may be shared by machines or copied from one to another: each has a part of its
// own in the file, and reads only that. Any thread and process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/estimate/machine_profile.h"

namespace spillway {

// `off`: forecasts and tunings are not wanted. path "": nowhere to keep them.
struct ProfilePlace {
  bool off = false;
  std::string path;
};
// From the environment. A path that is there and no regular file (/dev/null) means off, which the
// log says once.
ProfilePlace FindProfile();

struct LoadedProfile {
  MachineProfile profile;  // of this machine; empty where there is none
  // Of other machines that have a tuning in the file: their names.
  std::vector<std::string> tuned_elsewhere;
  // Why the file could not be read, as a line for the log; "" where it could, or is not there.
  std::string problem;
};
LoadedProfile LoadProfile(const std::string& path, const MachineIdentity& machine);

// Puts the entries of `profile` into the file, beside what others have put there meanwhile; of two
// for the same thing the newer one stays, unless it was made after `now`, when a clock was wrong. A
// broken file is replaced, a link followed. kFailedPrecondition, and nothing touched, where a newer
// Spillway wrote it; an error that names the path where it can't be written.
absl::Status SaveProfile(const std::string& path, const MachineIdentity& machine,
                         const MachineProfile& profile,
                         int64_t now = absl::ToUnixSeconds(absl::Now()));

}  // namespace spillway
