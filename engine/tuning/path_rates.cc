#include "engine/tuning/path_rates.h"

#include <algorithm>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/estimate/machine_probe.h"
#include "engine/estimate/machine_profile.h"
#include "engine/estimate/profile_file.h"
#include "engine/tuning/tuned_io.h"
#include "io/base/check.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Rate of the device below `path` alone: from the profile, or measured now.
absl::StatusOr<double> DeviceRate(const std::string& path, const BlockDevice& device,
                                  const DiskProbe& how, const std::string& profile_path) {
  const std::string key = DeviceKey(
      {device}, absl::StrFormat("alone, %d x %d KiB", how.io.depth, how.io.block_bytes >> 10));
  const MachineIdentity machine = ThisMachine();
  const int64_t now = time(nullptr);
  const LoadedProfile loaded = LoadProfile(profile_path, machine);
  if (const auto kept = loaded.profile.FindRates(key, how.probe_bytes, now)) {
    return kept->rates.mixed_bytes_per_second;
  }
  DiskProbe probe = how;
  probe.paths = {path};
  ASSIGN_OR_RETURN(const DiskRates rates, MeasureDisk(probe));
  MachineProfile measured;
  measured.SetRates(key, {rates, how.probe_bytes, now});
  // If it cannot be saved, it is measured again next time.
  SaveProfile(profile_path, machine, measured).IgnoreError();
  return rates.mixed_bytes_per_second;
}

void Announce(const std::vector<std::string>& paths, const std::vector<double>& weights,
              absl::string_view source) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  std::vector<std::string> parts;
  for (size_t i = 0; i < paths.size(); ++i) {
    parts.push_back(absl::StrFormat("%.0f%% to %s", 100 * weights[i] / sum, paths[i]));
  }
  LogInfo(absl::StrCat("the state goes to the swap paths by their speed, ", source, ": ",
                       absl::StrJoin(parts, ", ")));
}

}  // namespace

std::vector<double> ShareDevices(absl::Span<const BlockDevice> devices,
                                 absl::Span<const double> device_rates) {
  SPILLWAY_CHECK(devices.size() == device_rates.size());
  std::vector<double> rates;
  for (size_t i = 0; i < devices.size(); ++i) {
    rates.push_back(device_rates[i] /
                    static_cast<double>(std::count(devices.begin(), devices.end(), devices[i])));
  }
  return rates;
}

std::vector<double> SwapPathRates(const std::vector<std::string>& paths, const IoEngineOptions& io,
                                  uint64_t probe_bytes, uint64_t buffer_bytes) {
  const ProfilePlace place = FindProfile();
  if (paths.size() < 2 || place.off) return {};
  const std::vector<BlockDevice> devices = FindDevices(paths);
  if (std::all_of(devices.begin(), devices.end(),
                  [&](const BlockDevice& device) { return device == devices[0]; })) {
    return {};
  }
  if (const std::vector<double> tuned = TunedPathWeights(paths); !tuned.empty()) {
    Announce(paths, tuned, "as tuned");
    return tuned;
  }
  DiskProbe how;
  how.io = io;
  how.probe_bytes = probe_bytes;
  how.buffer_bytes = buffer_bytes;
  std::vector<double> device_rates;
  for (size_t i = 0; i < paths.size(); ++i) {
    const auto rate = DeviceRate(paths[i], devices[i], how, place.path);
    if (!rate.ok()) {
      LogWarning(absl::StrCat("the swap paths get equal parts of the state, since ", paths[i],
                              " could not be measured: ", rate.status().message()));
      return {};
    }
    device_rates.push_back(*rate);
  }
  const std::vector<double> rates = ShareDevices(devices, device_rates);
  Announce(paths, rates, "as measured");
  return rates;
}

}  // namespace spillway
