// The profile of a home that machines share: read, and replaced by one with more in it.
#include <cmath>

#include "engine/estimate/profile_file.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(machine_profile, 200) {
  static const ScratchDirectory home;
  static const MachineIdentity& here = *new MachineIdentity{.key = "k", .host = "h"};
  static const MachineIdentity& other = *new MachineIdentity{.key = "other", .host = "other"};
  const std::string path = home.PathOf("profile.json");
  home.Write("profile.json", input);
  const LoadedProfile loaded = LoadProfile(path, here);
  const nlohmann::json read = loaded.profile.ToJson();
  SPILLWAY_CHECK(MachineProfile::FromJson(read).ToJson() == read);
  for (const auto& [device, entry] : read["tuned"].items()) {
    const TunedEntry* tuned = loaded.profile.FindTuned(device);
    SPILLWAY_CHECK(tuned != nullptr && !StaleReason(*tuned, here, {}, 1800000000).empty());
    std::vector<BlockDevice> devices;
    for (const TunedDevice& each : tuned->devices) devices.push_back(each.device);
    for (const double weight : PathWeights(*tuned, devices)) {
      SPILLWAY_CHECK(std::isfinite(weight) && weight >= 0 && weight <= 1);
    }
  }
  // What another machine saves leaves ours as it is, and a file that a newer program wrote.
  MachineProfile more;
  more.SetRates("8:0", {.rates = {1e9, 1e9, 1e9, 1e-10}, .probe_bytes = 1, .unix_seconds = 1});
  const absl::Status saved = SaveProfile(path, other, more);
  if (!saved.ok()) {
    Refuse(saved, {absl::StatusCode::kFailedPrecondition});
    SPILLWAY_CHECK(!loaded.problem.empty());
    return false;
  }
  SPILLWAY_CHECK(LoadProfile(path, other).profile.FindRates("8:0", 1, 1).has_value());
  const LoadedProfile again = LoadProfile(path, here);
  SPILLWAY_CHECK(again.problem.empty());
  if (loaded.problem.empty()) SPILLWAY_CHECK(again.profile.ToJson() == read);
  return loaded.problem.empty() && !loaded.profile.empty();
}

}  // namespace spillway
