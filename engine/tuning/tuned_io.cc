#include "engine/tuning/tuned_io.h"

#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/machine/swap_paths.h"
#include "io/base/log.h"

namespace spillway {
namespace {

constexpr size_t kMostNames = 3;

std::vector<std::string> OfRankZero(const std::vector<std::string>& paths) {
  std::vector<std::string> filled;
  for (const std::string& path : paths) {
    filled.push_back(SwapPathOfRank(path, 0));
  }
  return filled;
}

std::string Remedy(const std::vector<std::string>& paths) {
  return absl::StrCat("spillway tune --swap ", absl::StrJoin(paths, ","));
}

FoundTuning FindHere(const std::vector<std::string>& swap_paths,
                     std::vector<BlockDevice>* devices) {
  const ProfilePlace place = FindProfile();
  if (place.off || place.path.empty() || swap_paths.empty()) return {};
  const MachineIdentity machine = ThisMachine();
  const std::vector<std::string> paths = OfRankZero(swap_paths);
  *devices = FindDevices(paths);
  return FindTuning(LoadProfile(place.path, machine), machine, paths, *devices, time(nullptr));
}

}  // namespace

FoundTuning FindTuning(const LoadedProfile& loaded, const MachineIdentity& machine,
                       const std::vector<std::string>& paths,
                       const std::vector<BlockDevice>& devices, int64_t unix_seconds) {
  FoundTuning found;
  if (!loaded.problem.empty()) {
    found.why_not = loaded.problem;
    return found;
  }
  const TunedEntry* entry = loaded.profile.FindTuned(DeviceKey(devices));
  if (entry == nullptr) {
    if (loaded.profile.has_tuned() || loaded.tuned_elsewhere.empty()) return found;
    std::vector<std::string> names = loaded.tuned_elsewhere;
    const bool more = names.size() > kMostNames;
    if (more) names.resize(kMostNames);
    found.why_not =
        absl::StrCat("the machine's profile was made on another machine (",
                     absl::StrJoin(names, ", "), more ? ", ..." : "", ") and is not used on ",
                     machine.host, ": ", Remedy(paths), " measures this one");
    return found;
  }
  const std::string reason = StaleReason(*entry, machine, devices, unix_seconds);
  if (reason.empty()) {
    found.entry = *entry;
  } else {
    found.why_not = absl::StrCat("the tuning of ", absl::StrJoin(paths, ","),
                                 " is not used: ", reason, "; ", Remedy(paths), " renews it");
  }
  return found;
}

std::optional<TunedEntry> FindTuning(const std::vector<std::string>& swap_paths) {
  std::vector<BlockDevice> devices;
  const FoundTuning found = FindHere(swap_paths, &devices);
  if (!found.why_not.empty()) LogWarning(found.why_not);
  return found.entry;
}

void ApplyTuning(const TunedEntry& entry, const IoGiven& given, IoEngineOptions* io) {
  // Tuned io_uring stays `auto`: if it is refused now, threads are used.
  if (!given.kind && entry.engine == "threads") io->kind = IoEngineOptions::Kind::kThreads;
  if (!given.kind) {
    io->poll = entry.mode == "iopoll";
    io->sqpoll = entry.mode == "sqpoll";
  }
  if (!given.block_bytes) io->block_bytes = entry.block_bytes;
  if (!given.depth) io->depth = entry.depth;
  if (!given.threads) io->threads = entry.threads;
  if (!given.block_bytes || !given.depth) io->origin = "tuned";
}

std::vector<double> TunedPathWeights(const std::vector<std::string>& swap_paths) {
  std::vector<BlockDevice> devices;
  const FoundTuning found = FindHere(swap_paths, &devices);
  return found.entry ? PathWeights(*found.entry, devices) : std::vector<double>();
}

}  // namespace spillway
