#include "engine/memory_limits.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace spillway {
namespace {

constexpr char kDoesNotFitPayload[] = "spillway/does-not-fit";

// "Key:   123 kB" in a /proc file, in bytes; 0 where it is missing.
uint64_t ProcField(const char* path, absl::string_view key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, key) || !absl::ConsumePrefix(&rest, ":")) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(rest, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    uint64_t kilobytes = 0;
    if (!words.empty() && absl::SimpleAtoi(words[0], &kilobytes)) return kilobytes * 1024;
  }
  return 0;
}

// A number alone in a file; UINT64_MAX for "max" or no file.
uint64_t NumberIn(const std::string& path) {
  std::ifstream in(path);
  std::string word;
  uint64_t value = 0;
  if (!(in >> word) || !absl::SimpleAtoi(word, &value)) return UINT64_MAX;
  return value;
}

// What our cgroup (v2, and its ancestors) leaves; UINT64_MAX where nothing limits.
uint64_t CgroupAvailableBytes() {
  std::ifstream in("/proc/self/cgroup");
  std::string line, group;
  while (std::getline(in, line)) {
    if (line.rfind("0::", 0) == 0) group = line.substr(3);
  }
  uint64_t available = UINT64_MAX;
  while (true) {
    const std::string folder = "/sys/fs/cgroup" + (group == "/" ? "" : group);
    const uint64_t limit = NumberIn(folder + "/memory.max");
    const uint64_t used = NumberIn(folder + "/memory.current");
    if (limit != UINT64_MAX && used != UINT64_MAX) {
      available = std::min(available, limit > used ? limit - used : 0);
    }
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos || group.empty()) break;
    group.resize(slash);
  }
  return available;
}

}  // namespace

uint64_t AvailableMemoryBytes() {
  return std::min(ProcField("/proc/meminfo", "MemAvailable"), CgroupAvailableBytes());
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
