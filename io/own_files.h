// What a file in a run's own directory must be before it is used, and the names that half-written
// ones have. Any thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

// What a directory has under a name.
struct DirectoryEntry {
  std::string name;
  bool is_file = false;          // regular
  bool is_directory = false;     // itself, not a link to one
  const char* kind = "a file";   // for messages
  uint32_t user = 0;             // who owns it
  uint64_t links = 1;            // names that it has
  uint64_t allocated_bytes = 0;  // on the drive
  int64_t modified_seconds = 0;  // 1970
};

// kFailedPrecondition or kPermissionDenied, with what it is, where the open `fd` is no
// regular file, belongs to another user or has another name elsewhere (a hard link).
absl::Status CheckOwnFile(int fd, absl::string_view path);

// The first of these alone: for what is only read.
absl::Status CheckRegularFile(int fd, absl::string_view path);

// The name under which WriteFileAtomically (io/file_system.h) writes what becomes `path`. `random`
// and not the process id: two containers that share a directory may run under the same one.
std::string AtomicWriteName(absl::string_view path, uint64_t random);

// Whether a file of this name is what WriteFileAtomically leaves behind when
// the process dies in the middle. The owner of the directory may remove it.
bool IsAtomicWriteLeftover(absl::string_view name);

// An entry of a directory, as `stat` has it.
DirectoryEntry EntryOf(std::string name, const struct stat& info);

// As CheckOwnFile, of an entry.
absl::Status CheckOwnEntry(const DirectoryEntry& entry, absl::string_view path);
// kFailedPrecondition or kPermissionDenied where it is no directory, or another user's.
absl::Status CheckOwnSubdirectory(const DirectoryEntry& entry, absl::string_view path);
// What no run put into its own directory.
absl::Status RefuseOther(const DirectoryEntry& entry, absl::string_view path);

}  // namespace spillway
