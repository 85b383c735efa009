#include "engine/run/output_directory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/run/earlier_run.h"
#include "engine/run/run_state.h"
#include "engine/run/swap_inventory.h"
#include "engine/run/written_bytes.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Number of times that the first rank waits for others that give up together with it.
constexpr int kRankTries = 500;
constexpr absl::Duration kRankPause = absl::Milliseconds(10);

}  // namespace

absl::StatusOr<std::unique_ptr<OutputDirectory>> OutputDirectory::Open(const std::string& path,
                                                                       int rank,
                                                                       FileSystem& files) {
  auto output = std::unique_ptr<OutputDirectory>(new OutputDirectory(files, rank));
  const auto found = files.Stat(path, SymbolicLink::kFollow);
  const bool missing = absl::IsNotFound(found.status());
  if (!missing && (!found.ok() || found->kind != FileInfo::Kind::kDirectory)) {
    return absl::InvalidArgumentError(absl::StrCat("--output ", path, " is not a directory"));
  }
  const auto names = files.List(path);
  output->was_empty_ = missing || (names.ok() && names->empty());
  // For every rank but the first, the parents are in OUTPUT, or are OUTPUT itself.
  const FileAccess parents = rank > 0 ? FileAccess::kReadable : FileAccess::kShared;
  RETURN_IF_ERROR(CreateDirectories(files, ParentPath(path), parents, &output->created_));
  ASSIGN_OR_RETURN(
      output->directory_,
      RunDirectory::Open(path, {.output = path, .access = FileAccess::kReadable, .files = &files}));
  if (missing) output->created_.insert(output->created_.begin(), path);
  std::vector<std::string> directories = OutputDirectoryNames();
  directories.push_back(kRanksName);
  RETURN_IF_ERROR(
      output->directory_->CheckEntries(OutputFileNames(rank), directories, OtherNames::kIgnored));
  output->run_id_ = ReadRunId(path, files);
  return output;
}

absl::Status OutputDirectory::DrawRunId() {
  ASSIGN_OR_RETURN(run_id_, CreateRunId(path(), files_));
  run_id_drawn_ = true;
  return absl::OkStatus();
}

bool OutputDirectory::HoldsOnly(const std::vector<std::string>& names) const {
  const auto found = files_.List(path());
  return found.ok() && std::all_of(found->begin(), found->end(), [&](const std::string& name) {
           return name == kLockName || std::find(names.begin(), names.end(), name) != names.end();
         });
}

OutputDirectory::~OutputDirectory() {
  if (directory_ == nullptr || kept_) return;
  std::vector<std::string> marks;
  if (run_id_drawn_) marks = {kRunIdName, FileName(WrittenBytes::PathIn(path()))};
  std::vector<std::string> others = marks;
  others.push_back(kRanksName);
  if (!HoldsOnly(others)) return;
  // Ranks that give up together remove their directories at the same time.
  const std::string ranks = absl::StrCat(path(), "/", kRanksName);
  for (int i = 0; i < kRankTries && rank_ == 0 && files_.Stat(ranks).ok(); ++i) {
    files_.Pause(kRankPause);
  }
  if (!HoldsOnly(marks)) return;
  const auto remove = [&](const std::string& name) {
    files_.Remove(absl::StrCat(path(), "/", name)).IgnoreError();
  };
  for (const std::string& mark : marks) remove(mark);
  if (!was_empty_) return;
  remove(kLockName);
  for (const std::string& directory : created_) {
    if (!files_.RemoveDirectory(directory).ok()) break;  // not empty: something else uses it
  }
  // The last rank to leave removes it, whichever created it.
  if (rank_ > 0) files_.RemoveDirectory(ParentPath(path())).IgnoreError();
}

}  // namespace spillway
