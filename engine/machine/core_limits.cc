#include "engine/machine/core_limits.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "io/base/check.h"

namespace spillway {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace

int AllowedCores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 0;
  return CPU_COUNT(&set);
}

double CgroupCores() {
  std::ifstream in("/proc/self/cgroup");
  std::string line;
  double least = 0;
  const auto take = [&](double quota, double period) {
    if (quota <= 0 || period <= 0) return;
    least = least == 0 ? quota / period : std::min(least, quota / period);
  };
  while (std::getline(in, line)) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    const bool version1 =
        std::find(controllers.begin(), controllers.end(), "cpu") != controllers.end();
    if (!version1 && !parts[1].empty()) continue;
    for (std::string group = parts[2] == "/" ? "" : parts[2];; group.resize(group.rfind('/'))) {
      double quota = 0, period = 0;
      if (version1) {
        const std::string folder = absl::StrCat("/sys/fs/cgroup/cpu", group);
        std::istringstream(FirstLine(folder + "/cpu.cfs_quota_us")) >> quota;
        std::istringstream(FirstLine(folder + "/cpu.cfs_period_us")) >> period;
      } else {  // "max 100000": not a number
        std::istringstream(FirstLine(absl::StrCat("/sys/fs/cgroup", group, "/cpu.max"))) >> quota >>
            period;
      }
      take(quota, period);
      if (group.rfind('/') == std::string::npos) break;
    }
  }
  return least;
}

int UsableCores() {
  const int allowed = std::max(1, AllowedCores());
  const double quota = CgroupCores();
  return quota > 0 ? std::clamp(static_cast<int>(quota), 1, allowed) : allowed;
}

int UpdateWorkersFor(int cores, int compute_threads) {
  SPILLWAY_CHECK(cores > 0 && compute_threads > 0);
  // One worker reads and checks while another updates. A worker keeps up with 5 to 10 GB/s of disk
  // traffic, so the maximum suits eight fast drives, and the memory's bandwidth.
  constexpr int kFewest = 2, kMost = 16;
  // Cores per worker where compute uses all cores: workers take time from it, and fewer of them
  // would keep the disk waiting as soon as there is more than one drive.
  constexpr int kShared = 8;
  return std::clamp(std::max(cores - compute_threads, cores / kShared), kFewest, kMost);
}

}  // namespace spillway
