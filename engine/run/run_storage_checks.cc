// RunStorage: whether what the run will write has room, and whether what it works in is still
// there.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "engine/machine/disk_space.h"
#include "engine/run/run_storage.h"
#include "engine/run/swap_runs.h"
#include "io/base/status.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

}  // namespace

// Everything that this run will write, with the swap files of `existing` there already.
absl::Status RunStorage::CheckRoom(const StateLayout& layout, const StoreOptions& store,
                                   const std::vector<std::string>& existing) const {
  std::vector<SpaceNeed> needs;
  const std::vector<uint64_t> files = SwapStore::FileBytes(layout, store);
  for (size_t i = 0; i < files.size(); ++i) {
    uint64_t there = 0;
    if (i < existing.size()) {
      std::error_code error;
      there = fs::file_size(existing[i] + "/" + SwapFileNames()[0], error);
      if (error) there = 0;
    }
    needs.push_back({store.directories[i], files[i] - std::min(there, files[i]),
                     absl::StrCat("swap", store.two_slots ? " (two copies of the state)" : "",
                                  " in ", fs::path(store.directories[i]).parent_path().string())});
  }
  uint64_t parameters = 0;
  for (const UnitLayout& unit : layout.units()) parameters += unit.parameters;
  uint64_t export_bytes = parameters * options_.export_bytes_per_parameter;
  std::error_code error;
  for (fs::directory_iterator entry(output() + "/model", error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const uint64_t there = entry->is_regular_file(error) ? entry->file_size(error) : 0;
    export_bytes -= std::min(export_bytes, there);
  }
  needs.push_back({output(), export_bytes, absl::StrCat("the model in ", output())});
  if (copies_) {
    needs.push_back({copies_->directory(), copies_->NeededBytes(layout, options_.overwrite),
                     absl::StrCat("copies of commits in ", copies_->directory())});
  }
  return CheckSpace(needs, earlier_->Returned(options_.overwrite),
                    absl::StrCat(options_.no_commit ? "" : "halve the swap with --no-commit, ",
                                 "name a path on another drive (--swap, --output), or remove what "
                                 "dead runs hold (spillway clean --swap PATH)"));
}

absl::Status RunStorage::CheckStillThere() const {
  const auto check = [](const RunDirectory& directory, const char* what) -> absl::Status {
    struct stat ours, named;
    const std::string& path = directory.path();
    if (::fstat(directory.fd(), &ours) == 0 && ::lstat(path.c_str(), &named) == 0 &&
        ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) {
      return absl::OkStatus();
    }
    return absl::UnavailableError(
        absl::StrCat(what, " ", path,
                     " was removed or replaced while the run used it, so nothing more can be "
                     "committed; leave it alone, and start the run again"));
  };
  RETURN_IF_ERROR(check(*output_, "OUTPUT"));
  for (const auto& directory : directories_) {
    RETURN_IF_ERROR(check(*directory, "the swap directory"));
    for (const std::string& name : SwapFileNames()) {
      struct stat info;
      if (::fstatat(directory->fd(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 &&
          errno == ENOENT) {
        return absl::UnavailableError(absl::StrCat(
            "the swap file ", directory->path(), "/", name,
            " was removed while the run used it, so nothing more can be committed; leave it "
            "alone, and start the run again"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace spillway
