#include "engine/run/swap_directories.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/machine/swap_paths.h"
#include "engine/run/run_record.h"
#include "engine/run/swap_inventory.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/checksum.h"

namespace spillway {

std::vector<std::string> SwapParents(const TrainOptions& options, FileSystem& files) {
  std::vector<std::string> parents;
  for (const std::string& path : options.swap_paths) {
    parents.push_back(files.Resolve(SwapPathOfRank(path, 0)));
  }
  // Without a swap path commits are in OUTPUT.
  if (parents.empty()) parents.push_back(files.Resolve(options.output));
  return parents;
}

std::string SwapIdOf(const std::string& output) {
  return absl::StrFormat("%016x", Checksum(output.data(), output.size()));
}

std::vector<std::string> DirectoriesOf(const SwapStore& store, FileSystem& files) {
  std::vector<std::string> directories;
  for (const std::string& path : store.directories()) {
    const std::string name = FileName(path);
    // One of our directories that is a link is refused when it is locked.
    directories.push_back(IsSwapDirectoryName(name)
                              ? absl::StrCat(files.Resolve(ParentPath(path)), "/", name)
                              : files.Resolve(path));
  }
  return directories;
}

absl::Status SwapDirectories::Lock(const std::vector<std::string>& paths, OutputDirectory& output,
                                   EarlierRun& earlier) {
  if (output.run_id().empty()) RETURN_IF_ERROR(output.DrawRunId());
  RunRecord owner = ThisProcess();
  owner.output = output.path();
  owner.run = output.run_id();
  for (const std::string& path : paths) {
    std::unique_ptr<RunDirectory> directory = earlier.Take(path);
    if (directory == nullptr) {
      ASSIGN_OR_RETURN(directory,
                       RunDirectory::Open(path, {.output = output.path(), .files = &files_}));
    }
    directories_.push_back(std::move(directory));
    const RunDirectory& locked = *directories_.back();
    ASSIGN_OR_RETURN(const auto before, locked.ReadOwner());
    const bool noted = before && before->output == owner.output && before->run == owner.run &&
                       before->host == owner.host && before->machine == owner.machine;
    if (!noted) RETURN_IF_ERROR(locked.WriteOwner(owner));
  }
  return absl::OkStatus();
}

bool SwapDirectories::AnyIn(const std::vector<std::string>& paths) const {
  return std::any_of(directories_.begin(), directories_.end(), [&](const auto& directory) {
    return std::find(paths.begin(), paths.end(), directory->path()) != paths.end();
  });
}

absl::Status SwapDirectories::CheckStillThere() const {
  for (const auto& directory : directories_) {
    RETURN_IF_ERROR(CheckStillNamed(*directory, "the swap directory"));
    for (const std::string& name : SwapFileNames()) {
      const std::string path = absl::StrCat(directory->path(), "/", name);
      if (!absl::IsNotFound(files_.Stat(path).status())) continue;
      return absl::UnavailableError(absl::StrCat(
          "the swap file ", path,
          " was removed while the run used it, so nothing more can be committed; leave it "
          "alone, and start the run again"));
    }
  }
  return absl::OkStatus();
}

bool SwapDirectories::Remove() {
  bool all = true;
  for (auto& directory : directories_) {
    const auto removed = RunDirectory::Remove(std::move(directory), SwapFileNames());
    if (!removed.ok()) LogWarning(removed.status().message());
    all &= removed.ok();
  }
  directories_.clear();
  return all;
}

absl::Status CheckStillNamed(const RunDirectory& directory, const char* what) {
  if (directory.own().IsStillNamed()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(what, " ", directory.path(),
                   " was removed or replaced while the run used it, so nothing more can be "
                   "committed; leave it alone, and start the run again"));
}

}  // namespace spillway
