// What disks of this machine can do, kept in a file so that not every run measures them.
//
// The file is $SPILLWAY_PROFILE; without it $XDG_CACHE_HOME/spillway/profile.json, or
// ~/.cache/spillway/profile.json. SPILLWAY_PROFILE=off: no measuring, and no forecasts.
// An entry counts for the device it was measured on, on the host and with the I/O engine it
// was measured with, and for thirty days. Anything else in the file is ignored, and replaced.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/estimate/step_forecast.h"
#include "nlohmann/json.hpp"

namespace spillway {

// Where rates are kept. `off`: forecasts are not wanted. path "": nowhere.
struct ProfilePlace {
  bool off = false;
  std::string path;
};
// From the environment.
ProfilePlace FindProfile();

struct DiskEntry {
  DiskRates rates;
  uint64_t probe_bytes = 0;  // moved each way to measure them
  int64_t unix_seconds = 0;  // when
};

// Of one machine. Plain values, pure functions.
class MachineProfile {
 public:
  // `host` tells machines apart. What is not a profile of this version and host is empty.
  static MachineProfile FromJson(const nlohmann::json& json, const std::string& host);
  nlohmann::json ToJson() const;

  explicit MachineProfile(std::string host) : host_(std::move(host)) {}

  // The entry of `device`, if it is younger than thirty days, not of the future, and was
  // measured with at least `probe_bytes`.
  std::optional<DiskEntry> Find(const std::string& device, uint64_t probe_bytes,
                                int64_t unix_seconds) const;
  void Set(const std::string& device, const DiskEntry& entry);

 private:
  const std::string host_;
  std::vector<std::pair<std::string, DiskEntry>> disks_;
};

// What the file holds of this machine; empty where there is none, or none that can be read.
MachineProfile LoadProfile(const std::string& path);
// Best effort: a profile that can't be kept is measured again.
void SaveProfile(const std::string& path, const MachineProfile& profile);

// The devices below `paths` and how they are reached, as a key of the profile.
std::string DeviceKey(const std::vector<std::string>& paths, absl::string_view engine);

}  // namespace spillway
