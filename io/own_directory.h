// An open directory of a run's own. Operations use the directory that was checked, whatever its
// path names later, and follow no links. Otherwise a planted link, pipe or device could make the
// run write outside, remove a foreign file, or hang. FileSystem opens it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "io/file_lock.h"
#include "io/own_files.h"

namespace spillway {

enum class OtherNames { kIgnored, kRefused };

// An open lock file. The lock ends with the object, or with its process.
class LockFile {
 public:
  virtual ~LockFile() = default;
  // See TryLockFile.
  virtual absl::StatusOr<bool> TryLock(LockKind kind) = 0;
  // False if the file has been removed: a lock on it excludes nobody.
  virtual absl::StatusOr<bool> IsNamed() const = 0;
  // Replaces the content. Not made durable.
  virtual absl::Status Write(absl::string_view text) = 0;
};

class OwnDirectory {
 public:
  explicit OwnDirectory(std::string path) : path_(std::move(path)) {}
  virtual ~OwnDirectory() = default;
  OwnDirectory(const OwnDirectory&) = delete;
  OwnDirectory& operator=(const OwnDirectory&) = delete;

  // The path that it was opened by; for messages.
  const std::string& path() const { return path_; }

  // The entries by name. Entries that vanish meanwhile are left out.
  virtual absl::StatusOr<std::vector<DirectoryEntry>> List() const = 0;
  // Reads at most `most_bytes` of a file. kNotFound if it does not exist; other errors as in
  // CheckOwnFile.
  virtual absl::StatusOr<std::string> ReadFile(const std::string& name,
                                               size_t most_bytes) const = 0;
  // kNotFound if it does not exist; other errors if it is no directory.
  virtual absl::StatusOr<std::unique_ptr<OwnDirectory>> OpenDirectory(
      const std::string& name) const = 0;
  // With `create` a missing file is created. Errors as in CheckOwnFile.
  virtual absl::StatusOr<std::unique_ptr<LockFile>> OpenLock(const std::string& name,
                                                             bool create) const = 0;
  // Creates a private subdirectory. kAlreadyExists if the name is taken by anything.
  virtual absl::Status CreateDirectory(const std::string& name) const = 0;
  // kNotFound if it does not exist.
  virtual absl::Status Remove(const std::string& name) const = 0;
  // Removes an empty directory; kFailedPrecondition if it is not empty.
  virtual absl::Status RemoveDirectory(const std::string& name) const = 0;
  // fsync: creations, renames and removals in the directory are durable afterwards.
  virtual absl::Status Sync() const = 0;
  // Whether its path still names it. While it is open, no other directory can have its device and
  // inode: neither below a lost mount nor in one mounted over it.
  virtual bool IsStillNamed() const = 0;
  // Whether it was removed; then it is empty for good.
  virtual bool IsRemoved() const = 0;

  // Checks those of `files` and `directories` that exist: files must be regular, of this user and
  // without hard links, directories of this user; temporary files count as `files`. With kRefused
  // nothing else may exist. kFailedPrecondition or kPermissionDenied names the entry and what it
  // is.
  absl::Status CheckEntries(absl::Span<const std::string> files,
                            absl::Span<const std::string> directories, OtherNames others) const;

  // Removes those of `names` that are files of ours, and temporary files. Returns the bytes that
  // they took; missing names are fine. Anything else stays and is an error.
  absl::StatusOr<uint64_t> RemoveFiles(absl::Span<const std::string> names) const;

  // Removes temporary files of WriteFileAtomically (io/file_system.h). Ignores errors, since they
  // only waste space. REQUIRES: no other process writes there.
  void RemoveLeftovers() const;

 private:
  const std::string path_;
};

enum class DirectoryUse {
  kLook,      // refuses links and directories of other users
  kReadable,  // also refuses directories that others may write to
  kForOurs,   // like kReadable, and removes all permissions of others
};

// Opens a directory of the machine's file system; FileSystem::OpenOwn is the general form.
absl::StatusOr<std::unique_ptr<OwnDirectory>> OpenOwnDirectory(absl::string_view path,
                                                               DirectoryUse use);

}  // namespace spillway
