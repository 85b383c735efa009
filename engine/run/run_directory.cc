#include "engine/run/run_directory.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr char kOwnerName[] = "owner";
constexpr size_t kMaxRecordBytes = 64 << 10;

// A process that inspects a lock (GlanceAtRunDirectory), or that just ended, holds it a moment
// longer.
constexpr int kTries = 25;
constexpr absl::Duration kPause = absl::Milliseconds(10);

// Attempts to open a directory that others remove meanwhile: more than can coincide by chance.
constexpr int kAttempts = 200;

// A trailing slash would make the kernel follow a link in the last component.
std::string WithoutTrailingSlashes(absl::string_view path) {
  while (path.size() > 1 && absl::ConsumeSuffix(&path, "/")) {
  }
  return std::string(path);
}

// Creates one directory. Syncs its parent even if it exists: its creator may have been killed
// before that.
absl::Status Create(FileSystem& files, const std::string& path, FileAccess access) {
  const absl::Status made = files.CreateDirectory(path, access);
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  return SyncIntoParent(files, path);
}

// The record in a file of a run directory; nullopt if it is missing, foreign or incomplete.
std::optional<RunRecord> ReadRecord(const OwnDirectory& directory, const char* name) {
  const auto text = directory.ReadFile(name, kMaxRecordBytes);
  return text.ok() ? DecodeRunRecord(*text) : std::nullopt;
}

absl::Status InUse(const OwnDirectory& directory) {
  const std::optional<RunRecord> holder = ReadRecord(directory, kLockName);
  return absl::FailedPreconditionError(absl::StrCat(
      "open run directory ", directory.path(), ": in use by ",
      holder ? DescribeHolder(*holder, ThisProcess()) : "a process that has not said who it is",
      "; wait for it, stop it, or name another directory"));
}

absl::StatusOr<std::unique_ptr<LockFile>> TakeLock(const OwnDirectory& directory,
                                                   const RunDirectoryOptions& options) {
  ASSIGN_OR_RETURN(auto lock, directory.OpenLock(kLockName, /*create=*/true));
  for (int tries = kTries;; --tries) {
    ASSIGN_OR_RETURN(const bool locked, lock->TryLock(LockKind::kExclusive));
    if (locked) break;
    if (tries == 0) return InUse(directory);
    options.files->Pause(kPause);
  }
  ASSIGN_OR_RETURN(const bool named, lock->IsNamed());
  if (!named) {
    return absl::UnavailableError(
        absl::StrCat("open run directory ", directory.path(),
                     ": a process that ended just now removed it; try again"));
  }
  RunRecord record = ThisProcess();
  record.output = options.output;
  RETURN_IF_ERROR(lock->Write(EncodeRunRecord(record)));
  return lock;
}

bool IsGone(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsNotFound(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunDirectory>> RunDirectory::TryOpen(
    const std::string& path, const RunDirectoryOptions& options) {
  SPILLWAY_CHECK(options.access != FileAccess::kShared);
  if (options.create) RETURN_IF_ERROR(Create(*options.files, path, options.access));
  const bool is_private = options.access == FileAccess::kPrivate;
  ASSIGN_OR_RETURN(
      auto directory,
      options.files->OpenOwn(path, is_private ? DirectoryUse::kForOurs : DirectoryUse::kReadable));
  ASSIGN_OR_RETURN(auto lock, TakeLock(*directory, options));
  directory->RemoveLeftovers();  // of a killed predecessor
  return std::unique_ptr<RunDirectory>(
      new RunDirectory(options.files, std::move(directory), std::move(lock)));
}

absl::StatusOr<std::unique_ptr<RunDirectory>> RunDirectory::Open(
    absl::string_view path, const RunDirectoryOptions& options) {
  const std::string name = WithoutTrailingSlashes(path);
  if (name.empty()) return absl::InvalidArgumentError("open run directory: the path is empty");
  // Repeated if another process removes the directory between two calls.
  for (int attempt = 1;; ++attempt) {
    auto directory = TryOpen(name, options);
    const bool again = options.create && attempt < kAttempts && IsGone(directory.status()) &&
                       options.files->Stat(ParentPath(name), SymbolicLink::kFollow).ok();
    if (!again) return directory;
  }
}

RunDirectory::~RunDirectory() {
  // The file remains: if it were removed, two processes could lock two different files of the same
  // name. It is emptied, so that a later refusal names no old pid.
  lock_->Write("").IgnoreError();
}

absl::Status RunDirectory::CheckEntries(absl::Span<const std::string> files,
                                        absl::Span<const std::string> directories,
                                        OtherNames others) const {
  std::vector<std::string> known(files.begin(), files.end());
  known.insert(known.end(), {kLockName, kOwnerName});
  return own_->CheckEntries(known, directories, others);
}

absl::StatusOr<std::optional<RunRecord>> RunDirectory::ReadOwner() const {
  const auto text = own_->ReadFile(kOwnerName, kMaxRecordBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  RETURN_IF_ERROR(text.status());
  if (const std::optional<RunRecord> record = DecodeRunRecord(*text)) return record;
  return WrongBytesError(absl::StrCat(path(), "/", kOwnerName,
                                      " does not say whose directory it is; look at it, and "
                                      "remove it where the directory is this run's"));
}

absl::Status RunDirectory::WriteOwner(const RunRecord& owner) const {
  return WriteFileAtomically(files_, absl::StrCat(path(), "/", kOwnerName), EncodeRunRecord(owner));
}

absl::StatusOr<uint64_t> RunDirectory::Remove(std::unique_ptr<RunDirectory> directory,
                                              absl::Span<const std::string> files) {
  const OwnDirectory& own = directory->own();
  std::vector<std::string> names(files.begin(), files.end());
  names.push_back(kOwnerName);
  ASSIGN_OR_RETURN(const uint64_t removed_bytes, own.RemoveFiles(names));
  ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> left, own.List());
  if (left.size() != 1 || left[0].name != kLockName) return removed_bytes;
  // Removed under its lock: a process that waits for it finds a file without a name, and tries
  // again.
  own.Remove(kLockName).IgnoreError();
  FileSystem& file_system = directory->files_;
  if (own.IsStillNamed()) file_system.RemoveDirectory(own.path()).IgnoreError();
  // Synced before the record that names it is removed: otherwise a power loss could restore the
  // directory, which nothing would find.
  SyncIntoParent(file_system, own.path()).IgnoreError();
  return removed_bytes;
}

std::optional<RunRecord> ReadOwnerOf(const std::string& path, FileSystem& files) {
  const auto directory = files.OpenOwn(path, DirectoryUse::kLook);
  return directory.ok() ? ReadRecord(**directory, kOwnerName) : std::nullopt;
}

absl::StatusOr<RunDirectoryGlance> GlanceAtRunDirectory(const std::string& path,
                                                        FileSystem& files) {
  ASSIGN_OR_RETURN(const FileInfo info, files.Stat(path));
  if (info.kind != FileInfo::Kind::kDirectory) {
    return absl::NotFoundError(absl::StrCat(path, " is not a directory"));
  }
  RunDirectoryGlance glance;
  glance.user = info.user;
  glance.modified_seconds = info.modified_ns / 1'000'000'000;
  const auto directory = files.OpenOwn(path, DirectoryUse::kLook);
  if (!directory.ok()) return glance;
  ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, (*directory)->List());
  glance.readable = true;
  for (const DirectoryEntry& entry : entries) {
    if (!entry.is_file) continue;
    glance.allocated_bytes += entry.allocated_bytes;
    if (entry.name != kLockName) {
      glance.modified_seconds = std::max(glance.modified_seconds, entry.modified_seconds);
    }
  }
  glance.owner = ReadRecord(**directory, kOwnerName);
  const auto lock = (*directory)->OpenLock(kLockName, /*create=*/false);
  if (!lock.ok()) return glance;
  // A shared lock, so that readers do not keep others out.
  ASSIGN_OR_RETURN(const bool locked, (*lock)->TryLock(LockKind::kShared));
  glance.in_use = !locked;
  if (glance.in_use) glance.holder = ReadRecord(**directory, kLockName);
  return glance;
}

}  // namespace spillway
