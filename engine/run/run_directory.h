// A directory that belongs to a single run and rank.
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
  // OUTPUT of the run, which the refusal of a second owner names.
  std::string output = {};
  // Create it if it is missing; otherwise that is kNotFound. It is durable in either case.
  bool create = true;
  // kPrivate closes the directory to others even if it existed and was open; other values leave the
  // mode of an existing one. REQUIRES: not kShared.
  FileAccess access = FileAccess::kPrivate;
  FileSystem* files = &FileSystem::Real();  // creates and removes it
};

// The name of its lock file.
inline constexpr char kLockName[] = "lock";

// Holds the directory's lock until destruction; the kernel releases it if the process dies.
// Refused, each with its reason: a directory of another user, or one that others may write to; a
// symbolic link in the last component; a lock held by a living process (kFailedPrecondition, naming
// process, host, time, and its run). The parent must exist; it may be world-writable and may itself
// be a symbolic link.
class RunDirectory {
 public:
  static absl::StatusOr<std::unique_ptr<RunDirectory>> Open(
      absl::string_view path, const RunDirectoryOptions& options = {});
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& path() const { return own_->path(); }
  // The directory that was checked and locked, whatever `path` names now.
  const OwnDirectory& own() const { return *own_; }

  // OwnDirectory::CheckEntries, which also accepts the lock and the owner's record.
  absl::Status CheckEntries(absl::Span<const std::string> files,
                            absl::Span<const std::string> directories, OtherNames others) const;

  // The record of the run that the directory belongs to, which persists without the lock. nullopt
  // if there is none.
  absl::StatusOr<std::optional<RunRecord>> ReadOwner() const;
  absl::Status WriteOwner(const RunRecord& owner) const;

  // Removes `files`, the record, and then the lock and the directory, if it is empty. Returns the
  // bytes removed. Follows no links, and removes no other kinds of entries.
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

// RunDirectory::ReadOwner without the lock; nullopt also if there is no such directory, or it is
// not readable.
std::optional<RunRecord> ReadOwnerOf(const std::string& path, FileSystem& files);

// Facts about a run directory read without its lock, and without disturbing a process that wants
// it.
struct RunDirectoryGlance {
  uint32_t user = 0;      // owner
  bool readable = false;  // the members below are set
  bool in_use = false;
  std::optional<RunRecord> holder;  // if it is in use
  std::optional<RunRecord> owner;
  uint64_t allocated_bytes = 0;
  int64_t modified_seconds = 0;  // of the newest file
};
// kNotFound if there is no directory of that name.
absl::StatusOr<RunDirectoryGlance> GlanceAtRunDirectory(const std::string& path,
                                                        FileSystem& files = FileSystem::Real());

}  // namespace spillway
