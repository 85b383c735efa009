// What lies in a run's own directory, checked before it is used and removed without
// following anything: whoever could plant a link, a pipe or a device there must not get a
// file of ours written elsewhere, a foreign file removed, or the run to hang. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace spillway {

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

// Removes them all. Best effort: they only waste space. REQUIRES: nobody else writes there.
void RemoveAtomicWriteLeftovers(int directory_fd);

struct DirectoryEntry {
  std::string name;
  bool is_file = false;       // regular
  bool is_directory = false;  // itself, not a link to one
  uint64_t allocated_bytes = 0;
  int64_t modified_seconds = 0;
};

// What is in an open directory, without "." and "..", by name. What vanishes meanwhile is
// left out.
absl::StatusOr<std::vector<DirectoryEntry>> ListDirectory(int directory_fd, absl::string_view path);

enum class OtherNames { kIgnored, kRefused };

// Checks in the open directory that each of `files` that is there passes CheckOwnFile and
// each of `directories` is a directory of ours; half-written files count as `files`. With
// kRefused nothing else may be there at all. `path` is for messages.
absl::Status CheckOwnEntries(int directory_fd, absl::string_view path,
                             absl::Span<const std::string> files,
                             absl::Span<const std::string> directories, OtherNames others);

// Removes those of `names` that are regular files in the open directory, never following
// anything, and half-written files. Returns the bytes that they took; a name that is not
// there is fine. What is no regular file stays, and is an error.
absl::StatusOr<uint64_t> RemoveOwnFiles(int directory_fd, absl::string_view path,
                                        absl::Span<const std::string> names);

}  // namespace spillway
