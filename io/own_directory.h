// An open directory of a run's own. What was checked is what is used, whatever its path names by
// now, and nothing is followed: whoever could plant a link, a pipe or a device there must not get a
// file of ours written elsewhere, a foreign file removed, or the run to hang. FileSystem opens it.
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

// An open lock file. The destructor gives the lock back, as the end of its process does.
class LockFile {
 public:
  virtual ~LockFile() = default;
  // As TryLockFile.
  virtual absl::StatusOr<bool> TryLock(LockKind kind) = 0;
  // False where somebody has removed it meanwhile: a lock on it keeps nobody out.
  virtual absl::StatusOr<bool> IsNamed() const = 0;
  // In place of what is in it. Not made durable.
  virtual absl::Status Write(absl::string_view text) = 0;
};

class OwnDirectory {
 public:
  explicit OwnDirectory(std::string path) : path_(std::move(path)) {}
  virtual ~OwnDirectory() = default;
  OwnDirectory(const OwnDirectory&) = delete;
  OwnDirectory& operator=(const OwnDirectory&) = delete;

  // That it was opened by; for messages.
  const std::string& path() const { return path_; }

  // What is in it, by name. What vanishes meanwhile is left out.
  virtual absl::StatusOr<std::vector<DirectoryEntry>> List() const = 0;
  // At most `most_bytes` of a file in it. kNotFound where there is none; else as CheckOwnFile.
  virtual absl::StatusOr<std::string> ReadFile(const std::string& name,
                                               size_t most_bytes) const = 0;
  // kNotFound where there is none; other errors for what is no directory.
  virtual absl::StatusOr<std::unique_ptr<OwnDirectory>> OpenDirectory(
      const std::string& name) const = 0;
  // The file is created where it is missing. Errors as of CheckOwnFile.
  virtual absl::StatusOr<std::unique_ptr<LockFile>> OpenLock(const std::string& name,
                                                             bool create) const = 0;
  // Makes one that is ours alone in it. kAlreadyExists where the name is taken, by whatever it is.
  virtual absl::Status CreateDirectory(const std::string& name) const = 0;
  // kNotFound where there is none.
  virtual absl::Status Remove(const std::string& name) const = 0;
  // The same of an empty directory; kFailedPrecondition where anything is in it.
  virtual absl::Status RemoveDirectory(const std::string& name) const = 0;
  // fsync: creations, renames and removals in it are durable from then on.
  virtual absl::Status Sync() const = 0;
  // Whether its path still names it. While this is open, no other directory has its device and
  // inode: not one below a mount that is gone, nor one that was mounted over it.
  virtual bool IsStillNamed() const = 0;
  // Whether it was removed: nothing names it, and nothing can be in it.
  virtual bool IsRemoved() const = 0;

  // Checks that each of `files` that is there is a regular file of ours without another name
  // elsewhere, and each of `directories` a directory of ours; half-written files count as `files`.
  // With kRefused nothing else may be there at all. kFailedPrecondition or kPermissionDenied, with
  // what it is and where.
  absl::Status CheckEntries(absl::Span<const std::string> files,
                            absl::Span<const std::string> directories, OtherNames others) const;

  // Removes those of `names` that are files of ours, and half-written files. Returns the bytes that
  // they took; a name that is not there is fine. What is no such file stays, and is an error.
  absl::StatusOr<uint64_t> RemoveFiles(absl::Span<const std::string> names) const;

  // Removes what WriteFileAtomically left (io/file_system.h). Best effort: it only wastes space.
  // REQUIRES: nobody else writes there.
  void RemoveLeftovers() const;

 private:
  const std::string path_;
};

enum class DirectoryUse {
  kLook,      // refused: a link, another user's
  kReadable,  // also one that others may write to
  kForOurs,   // the same, and others may not even read it from then on
};

// Of the machine's own file system; FileSystem::OpenOwn in general.
absl::StatusOr<std::unique_ptr<OwnDirectory>> OpenOwnDirectory(absl::string_view path,
                                                               DirectoryUse use);

}  // namespace spillway
