#include "engine/run/swap_places.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/run/swap_runs.h"
#include "engine/machine/block_device.h"
#include "io/file.h"
#include "io/base/log.h"
#include "engine/machine/probe_path.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// Dead runs are worth a line from here on, or from a hundredth of what is free.
constexpr uint64_t kMuchBytes = uint64_t{1} << 30;
constexpr uint64_t kMuchPart = 100;

absl::Status CheckParent(const std::string& parent) {
  std::error_code error;
  if (!fs::exists(parent, error)) {
    return absl::NotFoundError(absl::StrCat("the swap path ", parent,
                                            " does not exist: create it, or give another --swap"));
  }
  if (!fs::is_directory(parent, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the swap path ", parent, " is not a directory"));
  }
  if (access(parent.c_str(), W_OK | X_OK) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the swap path ", parent, " is not writable for this user: choose another --swap"));
  }
  return absl::OkStatus();
}

void WarnOfFilesystem(const std::string& parent) {
  const MountPoint mount = FindMount(parent);
  const std::string where = absl::StrCat("the swap path ", parent, " is on ", mount.filesystem);
  switch (KindOfFilesystem(mount.filesystem)) {
    case FilesystemKind::kMemory:
      LogWarning(absl::StrCat(where,
                              ", which is memory and no drive: what is swapped there counts "
                              "against this machine's memory and is lost at a restart; name a "
                              "directory on a drive"));
      return;
    case FilesystemKind::kNetwork:
      LogWarning(absl::StrCat(where, ", over a network: a drive of this machine is faster"));
      return;
    case FilesystemKind::kOverlay:
      LogWarning(absl::StrCat(where,
                              ", a container's layers: what lies there is lost with the "
                              "container; name a directory that is mounted into it"));
      return;
    case FilesystemKind::kDisk:
      return;
  }
}

void WarnOfMode(const std::string& parent) {
  struct stat info;
  if (::stat(parent.c_str(), &info) != 0) return;
  if ((info.st_mode & S_IWOTH) == 0 || (info.st_mode & S_ISVTX) != 0) return;
  LogWarning(absl::StrCat("anybody may rename directories in the swap path ", parent,
                          " (it is world-writable and not sticky): `chmod +t` it"));
}

void WarnOfDeadRuns(const std::string& parent) {
  const auto runs = FindSwapRuns(parent);
  if (!runs.ok()) return;  // a path one may write to but not list
  uint64_t dead_bytes = 0;
  int dead = 0;
  for (const SwapRun& run : *runs) {
    if (run.state != SwapRun::State::kDead) continue;
    dead_bytes += run.allocated_bytes;
    ++dead;
  }
  const uint64_t free_bytes = FreeSpaceBytes(parent).value_or(0);
  if (dead_bytes < std::min(kMuchBytes, free_bytes / kMuchPart) || dead_bytes == 0) return;
  LogWarning(absl::StrCat(dead, dead == 1 ? " dead run holds " : " dead runs hold ",
                          FormatBytes(dead_bytes), " below ", parent, ": `spillway clean --swap ",
                          parent, "` lists them"));
}

}  // namespace

std::string SwapPathOfRank(const std::string& path, int local_rank) {
  return absl::StrReplaceAll(path, {{"{rank}", absl::StrCat(local_rank)}});
}

absl::Status CheckSwapParents(const std::vector<std::string>& parents) {
  for (auto parent = parents.begin(); parent != parents.end(); ++parent) {
    if (std::find(parents.begin(), parent, *parent) != parent) {
      return absl::InvalidArgumentError(absl::StrCat("the swap path ", *parent, " is given twice"));
    }
    if (absl::Status status = CheckParent(*parent); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void WarnOfSwapParents(const std::vector<std::string>& parents) {
  for (const std::string& parent : parents) {
    WarnOfFilesystem(parent);
    WarnOfMode(parent);
    WarnOfDeadRuns(parent);
  }
}

}  // namespace spillway
