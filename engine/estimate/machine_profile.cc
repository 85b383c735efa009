#include "engine/estimate/machine_profile.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "io/base/format_bytes.h"
#include "io/checksum.h"

namespace spillway {
namespace {

constexpr int64_t kDaySeconds = 24 * 3600;
constexpr int64_t kMaxAgeDays = 30;

bool IsRecent(int64_t then, int64_t now) {
  return then <= now && now - then <= kMaxAgeDays * kDaySeconds;
}

std::string LimitText(uint64_t bytes) {
  return bytes == UINT64_MAX ? "unlimited" : FormatBytes(bytes);
}

std::string Shown(const std::string& text) { return text.empty() ? "not told" : text; }

// What is another about the device, "" where it is the same.
std::string DeviceChange(const BlockDevice& was, const BlockDevice& is) {
  const std::string disk = absl::StrCat("disk ", is.name.empty() ? is.number : is.name);
  if (was.serial != is.serial) {
    return absl::StrCat(disk, " has another serial number (", Shown(is.serial), ", not ",
                        Shown(was.serial), ")");
  }
  if (was.model != is.model) {
    return absl::StrCat(disk, " is another model (", Shown(is.model), ", not ", Shown(was.model),
                        ")");
  }
  if (was.size_bytes != is.size_bytes) {
    return absl::StrCat(disk, " has another size (", FormatBytes(is.size_bytes), ", not ",
                        FormatBytes(was.size_bytes), ")");
  }
  if (was.filesystem != is.filesystem) {
    return absl::StrCat(disk, " has another file system (", Shown(is.filesystem), ", not ",
                        Shown(was.filesystem), ")");
  }
  return "";
}

}  // namespace

MachineIdentity ThisMachine() {
  MachineIdentity machine;
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0) name[0] = '\0';
  machine.host = name;
  // The id itself is not for others to see (man machine-id), and clones may share it.
  std::ifstream in("/etc/machine-id");
  std::string id;
  std::getline(in, id);
  const std::string both = absl::StrCat("spillway profile ", id, " ", machine.host);
  machine.key = absl::StrFormat("%016x", Checksum(both.data(), both.size()));
  struct utsname system;
  if (uname(&system) == 0) machine.kernel = system.release;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  machine.cpus = sched_getaffinity(0, sizeof(allowed), &allowed) == 0
                     ? CPU_COUNT(&allowed)
                     : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  struct rlimit limit;
  machine.locked_memory_bytes =
      getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur
                                                                                : UINT64_MAX;
  return machine;
}

std::optional<DiskEntry> MachineProfile::FindRates(const std::string& device, uint64_t probe_bytes,
                                                   int64_t unix_seconds) const {
  const auto found = disks_.find(device);
  if (found == disks_.end()) return std::nullopt;
  const DiskEntry& entry = found->second;
  if (!IsRecent(entry.unix_seconds, unix_seconds) || entry.probe_bytes < probe_bytes) {
    return std::nullopt;
  }
  return entry;
}

std::optional<LinkRates> MachineProfile::FindLink(const std::string& device,
                                                  int64_t unix_seconds) const {
  const auto found = links_.find(device);
  if (found == links_.end() || !IsRecent(found->second.unix_seconds, unix_seconds)) {
    return std::nullopt;
  }
  return found->second.rates;
}

void MachineProfile::SetLink(const std::string& device, const LinkEntry& entry) {
  links_[device] = entry;
}

std::optional<CollectiveRates> MachineProfile::FindCollective(const std::string& ranks,
                                                              int64_t unix_seconds) const {
  const auto found = collectives_.find(ranks);
  if (found == collectives_.end() || !IsRecent(found->second.unix_seconds, unix_seconds)) {
    return std::nullopt;
  }
  return found->second.rates;
}

void MachineProfile::SetCollective(const std::string& ranks, const CollectiveEntry& entry) {
  collectives_[ranks] = entry;
}

void MachineProfile::SetRates(const std::string& device, const DiskEntry& entry) {
  disks_[device] = entry;
}

const TunedEntry* MachineProfile::FindTuned(const std::string& device) const {
  const auto found = tuned_.find(device);
  return found == tuned_.end() ? nullptr : &found->second;
}

void MachineProfile::SetTuned(const std::string& device, const TunedEntry& entry) {
  tuned_[device] = entry;
}

std::string StaleReason(const TunedEntry& entry, const MachineIdentity& machine,
                        const std::vector<BlockDevice>& devices, int64_t unix_seconds) {
  const int64_t age = unix_seconds - entry.unix_seconds;
  if (age < 0) return "it was made in the future: a clock is wrong";
  if (age > kMaxAgeDays * kDaySeconds) {
    return absl::StrCat("it is ", age / kDaySeconds, " days old, and ", kMaxAgeDays,
                        " is the most that counts");
  }
  if (entry.kernel != machine.kernel) {
    return absl::StrCat("the kernel is another (", machine.kernel, ", not ", entry.kernel, ")");
  }
  if (entry.cpus != machine.cpus) {
    return absl::StrCat("this process may use ", machine.cpus, " CPUs, not ", entry.cpus);
  }
  if (entry.locked_memory_bytes != machine.locked_memory_bytes) {
    return absl::StrCat("the limit of locked memory is another (",
                        LimitText(machine.locked_memory_bytes), ", not ",
                        LimitText(entry.locked_memory_bytes), ")");
  }
  for (const BlockDevice& device : devices) {
    const auto was = std::find_if(
        entry.devices.begin(), entry.devices.end(),
        [&](const TunedDevice& tuned) { return tuned.device.number == device.number; });
    if (was == entry.devices.end()) {
      return absl::StrCat("disk ", device.number, " was not part of it");
    }
    const std::string change = DeviceChange(was->device, device);
    if (!change.empty()) return change;
  }
  return "";
}

std::vector<double> PathWeights(const TunedEntry& entry, const std::vector<BlockDevice>& devices) {
  std::vector<double> weights;
  double total = 0;
  for (const BlockDevice& device : devices) {
    const auto tuned =
        std::find_if(entry.devices.begin(), entry.devices.end(),
                     [&](const TunedDevice& each) { return each.device.number == device.number; });
    if (tuned == entry.devices.end()) return {};
    const auto sharing =
        std::count_if(devices.begin(), devices.end(),
                      [&](const BlockDevice& each) { return each.number == device.number; });
    weights.push_back(tuned->rates.mixed_bytes_per_second / static_cast<double>(sharing));
    total += weights.back();
  }
  for (double& weight : weights) weight /= total;
  return weights;
}

std::vector<BlockDevice> FindDevices(const std::vector<std::string>& paths) {
  std::vector<BlockDevice> devices;
  for (const std::string& path : paths) devices.push_back(FindBlockDevice(path));
  return devices;
}

std::string DeviceKey(const std::vector<BlockDevice>& devices, const std::string& how) {
  std::set<std::string> numbers;
  for (const BlockDevice& device : devices) numbers.insert(device.number);
  return absl::StrCat(absl::StrJoin(numbers, "+"), how.empty() ? "" : " ", how);
}

std::string CollectiveKey(const GradientSumOptions& sums, int machines, bool gpus) {
  return absl::StrCat(sums.grid.size, " ranks in groups of ", sums.grid.group, " on ", machines,
                      machines == 1 ? " machine, " : " machines, ",
                      sums.exchange_bf16 ? "bf16" : "fp32", gpus ? ", GPUs" : "");
}

}  // namespace spillway
