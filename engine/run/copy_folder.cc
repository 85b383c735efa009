#include "engine/run/copy_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/run/run_state.h"
#include "engine/run/swap_inventory.h"
#include "engine/weights/model_files.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"
#include "io/file_system.h"
#include "io/own_files.h"

namespace spillway {
namespace {

std::string ManifestName() { return FileName(CommitManifestPath("")); }
std::string SourceName() { return FileName(SourceDirectory("")); }

// An open folder of ours; none (an invalid descriptor) where it is missing.
absl::StatusOr<UniqueFd> OpenFolder(int parent_fd, absl::string_view parent_path,
                                    const std::string& name) {
  // What it is, where it is no folder of ours.
  RETURN_IF_ERROR(CheckOwnEntries(parent_fd, parent_path, {}, {name}, OtherNames::kIgnored));
  UniqueFd fd(RetryOnSignal([&] {
    return ::openat(parent_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  }));
  if (fd.valid() || errno == ENOENT) return fd;
  return ErrnoStatus(errno, absl::StrCat("open ", parent_path, "/", name));
}

// A copy has every plain file of OUTPUT/source, whatever its name.
absl::StatusOr<std::vector<std::string>> NamesIn(int fd, const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, ListDirectory(fd, path));
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : entries) names.push_back(entry.name);
  return names;
}

// The folder of a copy, with what is in it checked.
struct Folder {
  UniqueFd fd;
  UniqueFd source;  // invalid where there is none
  std::string path;
  std::string source_path;
  std::vector<std::string> source_names;
};

absl::StatusOr<Folder> OpenChecked(int parent_fd, absl::string_view parent_path,
                                   const std::string& name) {
  Folder folder;
  folder.path = absl::StrCat(parent_path, "/", name);
  folder.source_path = SourceDirectory(folder.path);
  ASSIGN_OR_RETURN(folder.fd, OpenFolder(parent_fd, parent_path, name));
  if (!folder.fd.valid()) return folder;
  std::vector<std::string> files = SwapFileNames();
  files.push_back(ManifestName());
  RETURN_IF_ERROR(
      CheckOwnEntries(folder.fd.get(), folder.path, files, {SourceName()}, OtherNames::kRefused));
  ASSIGN_OR_RETURN(folder.source, OpenFolder(folder.fd.get(), folder.path, SourceName()));
  if (!folder.source.valid()) return folder;
  ASSIGN_OR_RETURN(folder.source_names, NamesIn(folder.source.get(), folder.source_path));
  RETURN_IF_ERROR(CheckOwnEntries(folder.source.get(), folder.source_path, folder.source_names, {},
                                  OtherNames::kRefused));
  return folder;
}

absl::Status RemoveFolder(int parent_fd, const std::string& name, const std::string& path) {
  if (::unlinkat(parent_fd, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, absl::StrCat("remove ", path));
}

}  // namespace

absl::Status CheckCopyFolder(int parent_fd, absl::string_view parent_path,
                             const std::string& name) {
  return OpenChecked(parent_fd, parent_path, name).status();
}

absl::Status RemoveCopyFolder(int parent_fd, absl::string_view parent_path,
                              const std::string& name) {
  ASSIGN_OR_RETURN(const Folder folder, OpenChecked(parent_fd, parent_path, name));
  if (!folder.fd.valid()) return absl::OkStatus();
  const int fd = folder.fd.get();
  RETURN_IF_ERROR(RemoveOwnFiles(fd, folder.path, {ManifestName()}).status());
  if (::fsync(fd) != 0) return ErrnoStatus(errno, absl::StrCat("sync ", folder.path));
  RETURN_IF_ERROR(RemoveOwnFiles(fd, folder.path, SwapFileNames()).status());
  if (folder.source.valid()) {
    RETURN_IF_ERROR(
        RemoveOwnFiles(folder.source.get(), folder.source_path, folder.source_names).status());
    RETURN_IF_ERROR(RemoveFolder(fd, SourceName(), folder.source_path));
  }
  return RemoveFolder(parent_fd, name, folder.path);
}

}  // namespace spillway
