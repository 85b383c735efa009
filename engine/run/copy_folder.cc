#include "engine/run/copy_folder.h"

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "engine/run/run_state.h"
#include "engine/run/swap_inventory.h"
#include "engine/weights/model_files.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

std::string SourceName() { return FileName(SourceDirectory("")); }

// Opens one of our folders; null if it is missing.
absl::StatusOr<std::unique_ptr<OwnDirectory>> OpenFolder(const OwnDirectory& parent,
                                                         const std::string& name) {
  // Reports its kind if it is not one of our folders.
  RETURN_IF_ERROR(parent.CheckEntries({}, {name}, OtherNames::kIgnored));
  auto folder = parent.OpenDirectory(name);
  if (absl::IsNotFound(folder.status())) return nullptr;
  return folder;
}

// Checked content of one folder of a copy: a rank's part, and for the first rank also the others'
// parts and the model's files.
struct Folder {
  std::unique_ptr<OwnDirectory> own;  // null: no such folder
  std::vector<std::string> files;     // the manifest is first
  std::unique_ptr<OwnDirectory> source;
  std::vector<std::string> source_names;
  std::unique_ptr<OwnDirectory> ranks;
  std::vector<std::string> rank_names;
};

std::vector<std::string> PartNames(const OwnDirectory& folder, int rank) {
  std::vector<std::string> files = {FileName(ManifestPath(folder.path(), rank))};
  const std::vector<std::string>& swap = SwapFileNames();
  files.insert(files.end(), swap.begin(), swap.end());
  return files;
}

absl::StatusOr<std::vector<std::string>> NamesIn(const OwnDirectory& folder) {
  ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, folder.List());
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : entries) names.push_back(entry.name);
  return names;
}

absl::StatusOr<Folder> OpenPart(const OwnDirectory& ranks, const std::string& name) {
  Folder folder;
  ASSIGN_OR_RETURN(folder.own, OpenFolder(ranks, name));
  if (folder.own == nullptr) return folder;
  folder.files = PartNames(*folder.own, RankByName(folder.own->path()));
  RETURN_IF_ERROR(folder.own->CheckEntries(folder.files, {}, OtherNames::kRefused));
  return folder;
}

absl::StatusOr<Folder> OpenChecked(const OwnDirectory& parent, const std::string& name) {
  Folder folder;
  ASSIGN_OR_RETURN(folder.own, OpenFolder(parent, name));
  if (folder.own == nullptr) return folder;
  folder.files = PartNames(*folder.own, /*rank=*/0);
  RETURN_IF_ERROR(
      folder.own->CheckEntries(folder.files, {SourceName(), kRanksName}, OtherNames::kRefused));
  ASSIGN_OR_RETURN(folder.source, OpenFolder(*folder.own, SourceName()));
  if (folder.source != nullptr) {
    // A copy has every plain file of OUTPUT/source, whatever its name.
    ASSIGN_OR_RETURN(folder.source_names, NamesIn(*folder.source));
    RETURN_IF_ERROR(folder.source->CheckEntries(folder.source_names, {}, OtherNames::kRefused));
  }
  ASSIGN_OR_RETURN(folder.ranks, OpenFolder(*folder.own, kRanksName));
  if (folder.ranks == nullptr) return folder;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(*folder.ranks));
  for (const std::string& rank : names) {
    int number = 0;
    if (absl::SimpleAtoi(rank, &number)) folder.rank_names.push_back(rank);
  }
  RETURN_IF_ERROR(folder.ranks->CheckEntries({}, folder.rank_names, OtherNames::kRefused));
  for (const std::string& rank : folder.rank_names) {
    RETURN_IF_ERROR(OpenPart(*folder.ranks, rank).status());
  }
  return folder;
}

absl::Status RemoveFolder(const OwnDirectory& parent, const std::string& name) {
  const absl::Status removed = parent.RemoveDirectory(name);
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

}  // namespace

absl::Status CheckCopyFolder(const OwnDirectory& parent, const std::string& name) {
  return OpenChecked(parent, name).status();
}

absl::Status RemoveCopyFolder(const OwnDirectory& parent, const std::string& name) {
  ASSIGN_OR_RETURN(const Folder folder, OpenChecked(parent, name));
  if (folder.own == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(folder.own->RemoveFiles({folder.files[0]}).status());
  RETURN_IF_ERROR(folder.own->Sync());
  RETURN_IF_ERROR(folder.own->RemoveFiles(folder.files).status());
  if (folder.source != nullptr) {
    RETURN_IF_ERROR(folder.source->RemoveFiles(folder.source_names).status());
    RETURN_IF_ERROR(RemoveFolder(*folder.own, SourceName()));
  }
  for (const std::string& rank : folder.rank_names) {
    ASSIGN_OR_RETURN(const Folder part, OpenPart(*folder.ranks, rank));
    if (part.own == nullptr) continue;
    RETURN_IF_ERROR(part.own->RemoveFiles(part.files).status());
    RETURN_IF_ERROR(RemoveFolder(*folder.ranks, rank));
  }
  if (folder.ranks != nullptr) RETURN_IF_ERROR(RemoveFolder(*folder.own, kRanksName));
  return RemoveFolder(parent, name);
}

}  // namespace spillway
