#include "swap/device/memory_nodes.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr int kMostNodes = 1024;  // as many as a kernel can be built for

// Whether a list such as "0-3,8" has any of them.
bool AnyIn(absl::string_view list, const cpu_set_t& processors) {
  for (absl::string_view range : absl::StrSplit(absl::StripAsciiWhitespace(list), ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(range, absl::MaxSplits('-', 1));
    int first, last;
    if (!absl::SimpleAtoi(ends.first, &first)) continue;
    if (!absl::SimpleAtoi(ends.second, &last)) last = first;
    for (int i = std::max(first, 0); i <= std::min(last, CPU_SETSIZE - 1); ++i) {
      if (CPU_ISSET(i, &processors)) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<int> NodesOf(const cpu_set_t& processors, const std::string& nodes_directory) {
  FileSystem& files = FileSystem::Real();
  std::vector<int> nodes;
  const auto names = files.List(nodes_directory);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    int node;
    if (!absl::StartsWith(name, "node") ||
        !absl::SimpleAtoi(absl::StripPrefix(name, "node"), &node) || node < 0 ||
        node >= kMostNodes) {
      continue;
    }
    const auto list = files.ReadSmallFile(absl::StrCat(nodes_directory, "/", name, "/cpulist"));
    if (list.ok() && AnyIn(*list, processors)) nodes.push_back(node);
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

void PlaceNearProcessors(char* data, uint64_t size_bytes) {
  cpu_set_t processors;
  if (sched_getaffinity(0, sizeof(processors), &processors) != 0) return;
  const std::vector<int> nodes = NodesOf(processors, "/sys/devices/system/node");
  if (nodes.size() > 1) DealOut(data, size_bytes, nodes);
}

void DealOut(char* data, uint64_t size_bytes, const std::vector<int>& nodes) {
  constexpr int kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, kMostNodes / kBits> mask = {};
  for (int node : nodes) mask[node / kBits] |= 1ul << (node % kBits);
  // The kernel uses one bit less than the given count.
  syscall(SYS_mbind, data, size_bytes, MPOL_INTERLEAVE, mask.data(), kMostNodes + 1, 0);
}

}  // namespace spillway
