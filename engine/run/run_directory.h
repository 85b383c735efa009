// A directory that belongs to one run and rank alone.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/run/run_record.h"
#include "io/file_system.h"
#include "io/own_directory.h"

namespace spillway {

struct RunDirectoryOptions {
  // OUTPUT of the run, which a refused second owner is told.
  std::string output = {};
  // Make it where it is missing; else that is kNotFound. Either way it is durable then.
  bool create = true;
  // A private one is closed to others even where it was there and open to them; another keeps the
  // mode that it has. REQUIRES: not kShared.
  FileAccess access = FileAccess::kPrivate;
  FileSystem* files = &FileSystem::Real();  // that makes and removes it
};

// The name of its lock file.
inline constexpr char kLockName[] = "lock";

// Holds the directory's lock until destruction; the kernel takes it back when the process
// dies, however it does. Refused, each with its reason: a directory of another user, or one
// that others may write to; a symbolic link in the last component; a lock held by a living
// process (kFailedPrecondition, naming process, host, since when, and its run). The parent
// must exist; it may be world-writable and may itself be a symbolic link.
class RunDirectory {
 public:
  static absl::StatusOr<std::unique_ptr<RunDirectory>> Open(
      absl::string_view path, const RunDirectoryOptions& options = {});
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& path() const { return own_->path(); }
  // That was checked and locked, whatever `path` names by now.
  const OwnDirectory& own() const { return *own_; }

  // As of OwnDirectory; `lock` and the owner's record are known to it.
  absl::Status CheckEntries(absl::Span<const std::string> files,
                            absl::Span<const std::string> directories, OtherNames others) const;

  // The record of the run that the directory belongs to, which stays when nobody holds the
  // lock. Nothing where there is none.
  absl::StatusOr<std::optional<RunRecord>> ReadOwner() const;
  absl::Status WriteOwner(const RunRecord& owner) const;

  // Removes `files`, the record, and then the lock and the directory, where nothing else is
  // in it. Returns the bytes that went. Nothing is followed, nothing of another kind removed.
  static absl::StatusOr<uint64_t> Remove(std::unique_ptr<RunDirectory> directory,
                                         absl::Span<const std::string> files);

 private:
  RunDirectory(FileSystem* files, std::unique_ptr<OwnDirectory> own, std::unique_ptr<LockFile> lock)
      : files_(*files), own_(std::move(own)), lock_(std::move(lock)) {}
  static absl::StatusOr<std::unique_ptr<RunDirectory>> TryOpen(const std::string& path,
                                                               const RunDirectoryOptions& options);

  FileSystem& files_;
  const std::unique_ptr<OwnDirectory> own_;
  const std::unique_ptr<LockFile> lock_;
};

// As RunDirectory::ReadOwner, without the lock; nothing also where there is no such directory, or
// it is not ours to read.
std::optional<RunRecord> ReadOwnerOf(const std::string& path, FileSystem& files);

// What can be seen of a run directory without its lock, and without disturbing who wants it.
struct RunDirectoryGlance {
  uint32_t user = 0;      // whose it is
  bool readable = false;  // the rest was looked at
  bool in_use = false;
  std::optional<RunRecord> holder;  // where in use
  std::optional<RunRecord> owner;
  uint64_t allocated_bytes = 0;
  int64_t modified_seconds = 0;  // the newest of its files
};
// kNotFound where there is no directory of that name.
absl::StatusOr<RunDirectoryGlance> GlanceAtRunDirectory(const std::string& path,
                                                        FileSystem& files = FileSystem::Real());

}  // namespace spillway
