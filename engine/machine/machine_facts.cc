#include "engine/machine/machine_facts.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/machine/core_limits.h"
#include "engine/machine/memory_limits.h"

namespace spillway {
namespace {

Limit LimitOf(int resource) {
  rlimit limit = {};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return {};
  const auto value = [](rlim_t n) { return n == RLIM_INFINITY ? UINT64_MAX : uint64_t{n}; };
  return {value(limit.rlim_cur), value(limit.rlim_max)};
}

// The value after "KEY:" in the first such line of a file, without surrounding blanks.
std::string FieldOf(const char* path, const std::string& key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    if (absl::StripAsciiWhitespace(line.substr(0, colon)) != key) continue;
    return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return "";
}

// "123 kB", or a plain number.
uint64_t FactNumber(const char* path, const std::string& key) {
  uint64_t value = 0;
  std::istringstream(FieldOf(path, key)) >> value;
  return value;
}

std::string FileWords(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// The setting in brackets of "always [madvise] never".
std::string Chosen(const std::string& settings) {
  const size_t begin = settings.find('[');
  const size_t end = settings.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  return settings.substr(begin + 1, end - begin - 1);
}

// The processor features that affect arithmetic speed.
std::vector<std::string> CpuFeatures() {
  const std::vector<std::string> has =
      absl::StrSplit(FieldOf("/proc/cpuinfo", "flags"), ' ', absl::SkipEmpty());
  std::vector<std::string> found;
  for (const char* feature : {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni",
                              "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16"}) {
    if (std::find(has.begin(), has.end(), feature) != has.end()) found.push_back(feature);
  }
  return found;
}

std::vector<std::pair<std::string, std::string>> Launcher() {
  std::vector<std::pair<std::string, std::string>> found;
  for (const char* name :
       {"WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "SLURM_JOB_ID", "SLURM_NTASKS",
        "SLURM_PROCID", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK"}) {
    const char* value = std::getenv(name);
    if (value != nullptr) found.emplace_back(name, value);
  }
  return found;
}

}  // namespace

ProcessorFacts ProbeProcessor() {
  return {FieldOf("/proc/cpuinfo", "model name"), static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)),
          FactNumber("/proc/meminfo", "MemTotal") * 1024};
}

MachineFacts ProbeMachine(const std::vector<std::string>& swap_paths) {
  MachineFacts facts;
  utsname names = {};
  if (::uname(&names) == 0) facts.kernel = names.release;
  facts.user = ::geteuid();
  facts.uring = ProbeUring();
  facts.locked_memory_bytes = LimitOf(RLIMIT_MEMLOCK);
  facts.open_files = LimitOf(RLIMIT_NOFILE);
  for (const std::string& path : swap_paths) facts.paths.push_back(ProbePath(path));

  const ProcessorFacts processor = ProbeProcessor();
  facts.memory_bytes = processor.memory_bytes;
  facts.available_bytes = AvailableMemoryBytes();
  facts.cgroup_limit_bytes = CgroupMemoryLimitBytes();
  facts.spendable_bytes = SpendableMemoryBytes();
  facts.transparent_huge_pages = Chosen(FileWords("/sys/kernel/mm/transparent_hugepage/enabled"));
  facts.huge_pages_free_bytes = FactNumber("/proc/meminfo", "HugePages_Free") *
                                FactNumber("/proc/meminfo", "Hugepagesize") * 1024;

  facts.cpu = processor.cpu;
  facts.cores = processor.cores;
  facts.cores_allowed = AllowedCores();
  facts.cores_quota = CgroupCores();
  facts.cpu_features = CpuFeatures();
  facts.simd = ActiveSimdTarget();
  facts.products = NativeProductsHere();
  facts.gpu = ProbeGpus();
  facts.launcher = Launcher();
  return facts;
}

}  // namespace spillway
