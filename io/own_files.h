// Requirements on files in a run's own directory, and the names of temporary files. Any thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

// An entry of a directory.
struct DirectoryEntry {
  std::string name;
  bool is_file = false;          // regular
  bool is_directory = false;     // a directory, not a link to one
  const char* kind = "a file";   // for messages
  uint32_t user = 0;             // the owner's id
  uint64_t links = 1;            // hard links
  uint64_t allocated_bytes = 0;  // on the drive
  int64_t modified_seconds = 0;  // mtime, since 1970
};

// Checks that the open `fd` is a regular file of this user without hard links; otherwise
// kFailedPrecondition or kPermissionDenied, with what it is.
absl::Status CheckOwnFile(int fd, absl::string_view path);

// Checks only that it is a regular file: for files that are only read.
absl::Status CheckRegularFile(int fd, absl::string_view path);

// The temporary name of WriteFileAtomically (io/file_system.h) for `path`. `random` and not the
// process id: two containers that share a directory may have equal ids.
std::string AtomicWriteName(absl::string_view path, uint64_t random);

// Whether a name is that of a temporary file, which a killed WriteFileAtomically leaves behind. The
// owner of the directory may remove it.
bool IsAtomicWriteLeftover(absl::string_view name);

// The entry for a result of `stat`.
DirectoryEntry EntryOf(std::string name, const struct stat& info);

// CheckOwnFile for an entry.
absl::Status CheckOwnEntry(const DirectoryEntry& entry, absl::string_view path);
// kFailedPrecondition or kPermissionDenied unless it is a directory of this user.
absl::Status CheckOwnSubdirectory(const DirectoryEntry& entry, absl::string_view path);
// The error for an entry that no run has created.
absl::Status RefuseOther(const DirectoryEntry& entry, absl::string_view path);

}  // namespace spillway
