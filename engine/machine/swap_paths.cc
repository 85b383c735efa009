#include "engine/machine/swap_paths.h"

#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/machine/block_device.h"
#include "engine/machine/probe_path.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

absl::Status CheckParent(const std::string& parent, FileSystem& files) {
  const auto found = files.Stat(parent, SymbolicLink::kFollow);
  if (!found.ok()) {
    return absl::NotFoundError(absl::StrCat("the swap path ", parent,
                                            " does not exist: create it, or give another --swap"));
  }
  if (found->kind != FileInfo::Kind::kDirectory) {
    return absl::InvalidArgumentError(
        absl::StrCat("the swap path ", parent, " is not a directory"));
  }
  if (!files.MayWriteIn(parent)) {
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

}  // namespace

std::string SwapPathOfRank(const std::string& path, int local_rank) {
  return absl::StrReplaceAll(path, {{"{rank}", absl::StrCat(local_rank)}});
}

absl::Status CheckTakesFiles(absl::string_view flag, const std::string& path) {
  std::string there = path;
  while (!Exists(there) && ParentPath(there) != there) there = ParentPath(there);
  const std::string filesystem = FindMount(there).filesystem;
  if (!IsKernelFilesystem(filesystem)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      flag, " ", path, " cannot be made: ", there, " is the kernel's own (", filesystem,
      "), in which there are no other files: name a directory on a drive"));
}

absl::Status CheckSwapParents(const std::vector<std::string>& parents, FileSystem& files) {
  for (auto parent = parents.begin(); parent != parents.end(); ++parent) {
    if (&files == &FileSystem::Real()) RETURN_IF_ERROR(CheckTakesFiles("--swap", *parent));
    if (std::find(parents.begin(), parent, *parent) != parent) {
      return absl::InvalidArgumentError(absl::StrCat("the swap path ", *parent, " is given twice"));
    }
    if (absl::Status status = CheckParent(*parent, files); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void WarnOfSwapParents(const std::vector<std::string>& parents) {
  for (const std::string& parent : parents) {
    WarnOfFilesystem(parent);
    WarnOfMode(parent);
  }
}

}  // namespace spillway
