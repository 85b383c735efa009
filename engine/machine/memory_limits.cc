#include "engine/machine/memory_limits.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/machine/process_limits.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"

namespace spillway {
namespace {

constexpr char kDoesNotFitPayload[] = "spillway/does-not-fit";

// "Key:   123 kB" in a /proc file, in bytes; 0 if it is missing.
uint64_t ProcField(const char* path, absl::string_view key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, key) || !absl::ConsumePrefix(&rest, ":")) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(rest, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    uint64_t kilobytes = 0;
    if (!words.empty() && absl::SimpleAtoi(words[0], &kilobytes)) return kilobytes * 1024;
  }
  return 0;
}

// The only number in a file; UINT64_MAX for "max" or no file.
uint64_t NumberIn(const std::string& path) {
  std::ifstream in(path);
  std::string word;
  uint64_t value = 0;
  if (!(in >> word) || !absl::SimpleAtoi(word, &value)) return UINT64_MAX;
  return value;
}

// "key 123" in a cgroup's memory.stat, 0 if it is missing.
uint64_t StatIn(const std::string& path, absl::string_view key) {
  std::ifstream in(path);
  std::string word;
  uint64_t value = 0;
  while (in >> word >> value) {
    if (word == key) return value;
  }
  return 0;
}

struct CgroupVersion {
  const char* top;
  const char* limit;
  const char* used;
  const char* page_cache;  // reclaimable memory
};
constexpr CgroupVersion kVersion1 = {"/sys/fs/cgroup/memory", "/memory.limit_in_bytes",
                                     "/memory.usage_in_bytes", "total_inactive_file"};
constexpr CgroupVersion kVersion2 = {"/sys/fs/cgroup", "/memory.max", "/memory.current",
                                     "inactive_file"};

struct CgroupMemory {
  uint64_t limit = UINT64_MAX;      // the lowest
  uint64_t available = UINT64_MAX;  // the least memory available below any limit
};

// Reads the limits of a cgroup and its ancestors.
void ReadCgroup(const CgroupVersion& version, std::string group, CgroupMemory* memory) {
  while (true) {
    const std::string folder = version.top + (group == "/" ? "" : group);
    const uint64_t limit = NumberIn(folder + version.limit);
    uint64_t used = NumberIn(folder + version.used);
    if (limit != UINT64_MAX && used != UINT64_MAX) {
      used -= std::min(used, StatIn(folder + "/memory.stat", version.page_cache));
      memory->limit = std::min(memory->limit, limit);
      memory->available = std::min(memory->available, limit > used ? limit - used : 0);
    }
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos || group.empty()) return;
    group.resize(slash);
  }
}

// Reads the limits of our cgroups, of either version. A line is "NUMBER:CONTROLLERS:PATH".
CgroupMemory ReadCgroups() {
  std::ifstream in("/proc/self/cgroup");
  std::string line;
  CgroupMemory memory;
  while (std::getline(in, line)) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    if (parts[1].empty()) {
      ReadCgroup(kVersion2, parts[2], &memory);
    } else if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()) {
      ReadCgroup(kVersion1, parts[2], &memory);
    }
  }
  return memory;
}

}  // namespace

uint64_t AvailableMemoryBytes() {
  return std::min(
      {ProcField("/proc/meminfo", "MemAvailable"), ReadCgroups().available, SpareAddressBytes()});
}

uint64_t SpendableMemoryBytes(int processes) {
  const uint64_t available = AvailableMemoryBytes() / processes;
  const uint64_t spendable = available - available / 10;
  return spendable - std::min(spendable, kProcessBaseBytes);
}

// Version 1 reports no limit as a number near 2^63.
uint64_t CgroupMemoryLimitBytes() {
  const uint64_t limit = ReadCgroups().limit;
  return limit >= uint64_t{1} << 62 ? UINT64_MAX : limit;
}

uint64_t MachineMemoryBytes() {
  const uint64_t machine = ProcField("/proc/meminfo", "MemTotal");
  return machine == 0 ? CgroupMemoryLimitBytes() : std::min(machine, CgroupMemoryLimitBytes());
}

absl::Status CheckGivenBudgets(uint64_t device_bytes, uint64_t host_bytes, int processes) {
  constexpr char kDevice[] = "--device-memory", kHost[] = "--host-memory";
  const std::string each = processes > 1 ? absl::StrCat(" for each of ", processes, " ranks") : "";
  if (device_bytes > 0 && host_bytes > 0) {
    const uint64_t machine = MachineMemoryBytes() / static_cast<uint64_t>(processes);
    if (device_bytes <= machine && host_bytes <= machine - device_bytes) return absl::OkStatus();
    LogWarning(absl::StrCat(kDevice, " ", FormatBytes(device_bytes), " and ", kHost, " ",
                            FormatBytes(host_bytes), " are more together than the ",
                            FormatBytes(machine), " of memory that this machine has", each,
                            " (on a CPU both are RAM)"));
    return absl::OkStatus();
  }
  const uint64_t given = std::max(device_bytes, host_bytes);
  const uint64_t spendable = SpendableMemoryBytes(processes);
  if (given == 0 || given < spendable) return absl::OkStatus();
  const char* const said = device_bytes > 0 ? kDevice : kHost;
  const char* const left = device_bytes > 0 ? kHost : kDevice;
  return DoesNotFitError(
      absl::StrCat("of the ", FormatBytes(spendable), " of memory that can be used here", each,
                   ", ", said, " ", FormatBytes(given), " leaves nothing for ", left,
                   " (on a CPU both are RAM): give ", left, ", too, or less of ", said));
}

void ChooseBudgets(uint64_t* device_bytes, uint64_t* host_bytes, int processes) {
  if (*device_bytes > 0 && *host_bytes > 0) return;
  const uint64_t spendable = SpendableMemoryBytes(processes);
  if (*device_bytes > 0) {
    *host_bytes = spendable - std::min(spendable, *device_bytes);
  } else if (*host_bytes > 0) {
    *device_bytes = spendable - std::min(spendable, *host_bytes);
  } else {
    *device_bytes = spendable / 3;
    *host_bytes = spendable - *device_bytes;
  }
}

uint64_t MemoryForReading(uint64_t device_bytes, uint64_t host_bytes) {
  if (device_bytes == 0 || host_bytes == 0) return UINT64_MAX;
  const uint64_t allowed = device_bytes + host_bytes + kProcessBaseBytes;
  return allowed - std::min(allowed, ResidentBytes());
}

uint64_t ResidentBytes() { return ProcField("/proc/self/status", "VmRSS"); }

uint64_t PeakResidentBytes() { return ProcField("/proc/self/status", "VmHWM"); }

absl::Status DoesNotFitError(absl::string_view message) {
  absl::Status status = absl::ResourceExhaustedError(message);
  status.SetPayload(kDoesNotFitPayload, absl::Cord("1"));
  return status;
}

int ExitCodeOf(const absl::Status& status) {
  if (status.GetPayload(kDoesNotFitPayload).has_value()) return 3;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnimplemented:
      return 2;
    case absl::StatusCode::kDataLoss:
      return 4;
    default:
      return 1;
  }
}

}  // namespace spillway
