#include "engine/estimate/machine_profile.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "io/file.h"

namespace spillway {
namespace {

constexpr int kVersion = 1;
constexpr int64_t kMaxAgeSeconds = 30 * 24 * 3600;

// A home may be shared by machines whose device numbers are alike.
std::string ThisHost() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0) name[0] = '\0';
  return absl::StrCat(name, ", ", std::thread::hardware_concurrency(), " cores");
}

double PositiveNumber(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return 0;
  const double value = found->get<double>();
  return std::isfinite(value) && value > 0 ? value : 0;
}

}  // namespace

ProfilePlace FindProfile() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  const std::string said = variable("SPILLWAY_PROFILE");
  if (said == "off") return {true, ""};
  if (!said.empty()) return {false, said};
  // The standard asks for absolute paths and has others ignored.
  const std::string cache = variable("XDG_CACHE_HOME"), home = variable("HOME");
  if (!cache.empty() && cache[0] == '/') return {false, cache + "/spillway/profile.json"};
  if (!home.empty() && home[0] == '/') return {false, home + "/.cache/spillway/profile.json"};
  return {};
}

MachineProfile MachineProfile::FromJson(const nlohmann::json& json, const std::string& host) {
  MachineProfile profile(host);
  if (!json.is_object() || json.value("version", nlohmann::json()) != kVersion ||
      json.value("host", nlohmann::json()) != host) {
    return profile;
  }
  const auto disks = json.find("disks");
  if (disks == json.end() || !disks->is_object()) return profile;
  for (const auto& [device, value] : disks->items()) {
    if (!value.is_object()) continue;
    DiskEntry entry;
    entry.rates.read_bytes_per_second = PositiveNumber(value, "read_bytes_per_second");
    entry.rates.write_bytes_per_second = PositiveNumber(value, "write_bytes_per_second");
    entry.rates.mixed_bytes_per_second = PositiveNumber(value, "mixed_bytes_per_second");
    // Beyond an exabyte or the year 5000 they are not ours; and so they fit an integer.
    const double probe = PositiveNumber(value, "probe_bytes");
    const double when = PositiveNumber(value, "unix_seconds");
    if (std::min({entry.rates.read_bytes_per_second, entry.rates.write_bytes_per_second,
                  entry.rates.mixed_bytes_per_second, probe, when}) <= 0 ||
        probe > 1e18 || when > 1e11) {
      continue;
    }
    entry.probe_bytes = static_cast<uint64_t>(probe);
    entry.unix_seconds = static_cast<int64_t>(when);
    profile.Set(device, entry);
  }
  return profile;
}

nlohmann::json MachineProfile::ToJson() const {
  nlohmann::json disks = nlohmann::json::object();
  for (const auto& [device, entry] : disks_) {
    disks[device] = {{"read_bytes_per_second", entry.rates.read_bytes_per_second},
                     {"write_bytes_per_second", entry.rates.write_bytes_per_second},
                     {"mixed_bytes_per_second", entry.rates.mixed_bytes_per_second},
                     {"probe_bytes", entry.probe_bytes},
                     {"unix_seconds", entry.unix_seconds}};
  }
  return {{"version", kVersion}, {"host", host_}, {"disks", disks}};
}

std::optional<DiskEntry> MachineProfile::Find(const std::string& device, uint64_t probe_bytes,
                                              int64_t unix_seconds) const {
  for (const auto& [name, entry] : disks_) {
    if (name != device) continue;
    const int64_t age = unix_seconds - entry.unix_seconds;
    if (age < 0 || age > kMaxAgeSeconds || entry.probe_bytes < probe_bytes) return std::nullopt;
    return entry;
  }
  return std::nullopt;
}

void MachineProfile::Set(const std::string& device, const DiskEntry& entry) {
  for (auto& [name, value] : disks_) {
    if (name != device) continue;
    value = entry;
    return;
  }
  disks_.emplace_back(device, entry);
}

MachineProfile LoadProfile(const std::string& path) {
  const auto text = path.empty() ? absl::NotFoundError("") : ReadSmallFile(path, 1 << 20);
  if (!text.ok()) return MachineProfile(ThisHost());
  return MachineProfile::FromJson(nlohmann::json::parse(*text, nullptr, false), ThisHost());
}

void SaveProfile(const std::string& path, const MachineProfile& profile) {
  if (path.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  WriteFileAtomically(path, profile.ToJson().dump(2) + "\n").IgnoreError();
}

std::string DeviceKey(const std::vector<std::string>& paths, absl::string_view engine) {
  std::set<std::string> devices;
  for (const std::string& path : paths) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) continue;
    devices.insert(absl::StrCat(major(info.st_dev), ":", minor(info.st_dev)));
  }
  return absl::StrCat(absl::StrJoin(devices, "+"), " ", engine);
}

}  // namespace spillway
