#include "engine/run/copy_folder.h"

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/run/run_state.h"
#include "engine/run/swap_inventory.h"
#include "engine/weights/model_files.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

std::string ManifestName() { return FileName(CommitManifestPath("")); }
std::string SourceName() { return FileName(SourceDirectory("")); }

// A folder of ours; null where it is missing.
absl::StatusOr<std::unique_ptr<OwnDirectory>> OpenFolder(const OwnDirectory& parent,
                                                         const std::string& name) {
  // What it is, where it is no folder of ours.
  RETURN_IF_ERROR(parent.CheckEntries({}, {name}, OtherNames::kIgnored));
  auto folder = parent.OpenDirectory(name);
  if (absl::IsNotFound(folder.status())) return nullptr;
  return folder;
}

// The folder of a copy, with what is in it checked.
struct Folder {
  std::unique_ptr<OwnDirectory> own;     // null where there is none
  std::unique_ptr<OwnDirectory> source;  // likewise
  std::vector<std::string> source_names;
};

absl::StatusOr<Folder> OpenChecked(const OwnDirectory& parent, const std::string& name) {
  Folder folder;
  ASSIGN_OR_RETURN(folder.own, OpenFolder(parent, name));
  if (folder.own == nullptr) return folder;
  std::vector<std::string> files = SwapFileNames();
  files.push_back(ManifestName());
  RETURN_IF_ERROR(folder.own->CheckEntries(files, {SourceName()}, OtherNames::kRefused));
  ASSIGN_OR_RETURN(folder.source, OpenFolder(*folder.own, SourceName()));
  if (folder.source == nullptr) return folder;
  // A copy has every plain file of OUTPUT/source, whatever its name.
  ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, folder.source->List());
  for (const DirectoryEntry& entry : entries) folder.source_names.push_back(entry.name);
  RETURN_IF_ERROR(folder.source->CheckEntries(folder.source_names, {}, OtherNames::kRefused));
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
  RETURN_IF_ERROR(folder.own->RemoveFiles({ManifestName()}).status());
  RETURN_IF_ERROR(folder.own->Sync());
  RETURN_IF_ERROR(folder.own->RemoveFiles(SwapFileNames()).status());
  if (folder.source != nullptr) {
    RETURN_IF_ERROR(folder.source->RemoveFiles(folder.source_names).status());
    RETURN_IF_ERROR(RemoveFolder(*folder.own, SourceName()));
  }
  return RemoveFolder(parent, name);
}

}  // namespace spillway
