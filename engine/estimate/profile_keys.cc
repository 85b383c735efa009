#include "engine/estimate/profile_keys.h"

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
#include "io/checksum.h"

namespace spillway {

MachineIdentity ThisMachine() {
  MachineIdentity machine;
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0) name[0] = '\0';
  machine.host = name;
  // The machine id must not be published (man machine-id), and clones may share it.
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
  const uint64_t bucket = sums.bucket_parameters;
  return absl::StrCat(
      sums.grid.size, " ranks in groups of ", sums.grid.group, " on ", machines,
      machines == 1 ? " machine, " : " machines, ", ExchangeFormatName(sums.format),
      gpus ? ", GPUs" : "",
      // If few parameters are trained, sums have small buckets and a different rate.
      bucket < kDefaultBucketParameters ? absl::StrCat(", buckets of ", bucket) : "");
}

}  // namespace spillway
