#include "engine/run/run_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"
#include "io/file.h"
#include "io/file_lock.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr char kLockName[] = "lock";
constexpr char kOwnerName[] = "owner";
constexpr size_t kMaxRecordBytes = 64 << 10;

// Whoever glances at a lock (GlanceAtRunDirectory) or has just ended holds it a moment longer.
constexpr absl::Duration kPatience = absl::Milliseconds(250);
constexpr absl::Duration kPause = absl::Milliseconds(10);

// Of opening a directory that others remove meanwhile: more than can meet by chance.
constexpr int kAttempts = 200;

// A trailing slash would make the kernel follow a link in the last component.
std::string WithoutTrailingSlashes(absl::string_view path) {
  while (path.size() > 1 && absl::ConsumeSuffix(&path, "/")) {
  }
  return std::string(path);
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status Create(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0) {
    if (errno == EEXIST) return absl::OkStatus();
    return ErrnoStatus(errno, absl::StrCat("create directory ", path));
  }
  const absl::Status synced = SyncDirectory(ParentOf(path));
  // A parent one may write to but not list (mode 1733, say) can't be opened;
  // the directory is as good, only its first seconds are less durable.
  if (absl::IsPermissionDenied(synced)) return absl::OkStatus();
  return synced;
}

// Opens the directory and checks that it is a directory, ours and ours alone.
// All that follows goes through the descriptor: what was checked is what is used.
absl::StatusOr<UniqueFd> OpenOwned(const std::string& path) {
  UniqueFd fd(RetryOnSignal(
      [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }));
  if (!fd.valid()) {
    const int error = errno;
    struct stat info;
    if (::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
      return absl::FailedPreconditionError(
          absl::StrCat("open run directory ", path,
                       ": it is a symbolic link, which somebody else could turn elsewhere; name "
                       "the directory it points to"));
    }
    if (::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid != ::geteuid()) {
      return absl::PermissionDeniedError(absl::StrFormat(
          "open run directory %s: it belongs to user %d, not to user %d; name another directory",
          path, info.st_uid, ::geteuid()));
    }
    return ErrnoStatus(error, absl::StrCat("open run directory ", path));
  }
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  if (info.st_uid != ::geteuid()) {
    return absl::PermissionDeniedError(absl::StrFormat(
        "open run directory %s: it belongs to user %d, not to user %d; name another directory",
        path, info.st_uid, ::geteuid()));
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::PermissionDeniedError(absl::StrFormat(
        "open run directory %s: other users may write to it (mode %04o), so its contents cannot be "
        "trusted; `chmod 700` it if they can, or name another directory",
        path, info.st_mode & 07777));
  }
  if ((info.st_mode & 07777) != 0700 && ::fchmod(fd.get(), 0700) != 0) {
    return ErrnoStatus(errno, absl::StrCat("set mode 0700 on ", path));
  }
  return fd;
}

// What a file of a run directory says; nothing where it is missing, no file of ours or not whole.
std::optional<RunRecord> ReadRecordAt(int directory_fd, const char* name) {
  // Not blocking: what somebody planted may be a pipe.
  const UniqueFd fd(RetryOnSignal([&] {
    return ::openat(directory_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  }));
  if (!fd.valid() || !CheckOwnFile(fd.get(), name).ok()) return std::nullopt;
  std::string text(kMaxRecordBytes, '\0');
  const ssize_t got = RetryOnSignal([&] { return ::pread(fd.get(), text.data(), text.size(), 0); });
  if (got <= 0) return std::nullopt;
  text.resize(got);
  return DecodeRunRecord(text);
}

absl::Status InUse(int directory_fd, const std::string& path) {
  const std::optional<RunRecord> holder = ReadRecordAt(directory_fd, kLockName);
  return absl::FailedPreconditionError(absl::StrCat(
      "open run directory ", path, ": in use by ",
      holder ? DescribeHolder(*holder, ThisProcess()) : "a process that has not said who it is",
      "; wait for it, stop it, or name another directory"));
}

absl::StatusOr<UniqueFd> OpenLockFile(int directory_fd, const std::string& path) {
  UniqueFd fd(RetryOnSignal([&] {
    return ::openat(directory_fd, kLockName, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                    0600);
  }));
  const std::string name = absl::StrCat(path, "/", kLockName);
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", name));
  struct stat info;
  // Removed between open and here by a process that ended: TryOpen comes again.
  if (::fstat(fd.get(), &info) == 0 && info.st_nlink == 0) return fd;
  RETURN_IF_ERROR(CheckOwnFile(fd.get(), name));
  return fd;
}

absl::StatusOr<UniqueFd> TakeLock(int directory_fd, const std::string& path,
                                  const std::string& output) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenLockFile(directory_fd, path));
  const std::string name = absl::StrCat(path, "/", kLockName);
  for (const absl::Time give_up = absl::Now() + kPatience;;) {
    ASSIGN_OR_RETURN(const bool locked, TryLockFile(fd.get(), LockKind::kExclusive, name));
    if (locked) break;
    if (absl::Now() >= give_up) return InUse(directory_fd, path);
    absl::SleepFor(kPause);
  }
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("look at ", name));
  if (info.st_nlink == 0) {
    return absl::UnavailableError(absl::StrCat(
        "open run directory ", path, ": a process that ended just now removed it; try again"));
  }
  RunRecord record = ThisProcess();
  record.output = output;
  const std::string text = EncodeRunRecord(record);
  if (::ftruncate(fd.get(), 0) != 0 || RetryOnSignal([&] {
                                         return ::pwrite(fd.get(), text.data(), text.size(), 0);
                                       }) != static_cast<ssize_t>(text.size())) {
    return ErrnoStatus(errno, absl::StrCat("write ", name));
  }
  return fd;
}

bool IsGone(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsNotFound(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunDirectory>> RunDirectory::TryOpen(
    const std::string& path, const RunDirectoryOptions& options) {
  if (options.create) RETURN_IF_ERROR(Create(path));
  ASSIGN_OR_RETURN(UniqueFd directory, OpenOwned(path));
  ASSIGN_OR_RETURN(UniqueFd lock, TakeLock(directory.get(), path, options.output));
  RemoveAtomicWriteLeftovers(directory.get());  // of a killed predecessor
  return std::unique_ptr<RunDirectory>(
      new RunDirectory(path, std::move(directory), std::move(lock)));
}

absl::StatusOr<std::unique_ptr<RunDirectory>> RunDirectory::Open(
    absl::string_view path, const RunDirectoryOptions& options) {
  const std::string name = WithoutTrailingSlashes(path);
  if (name.empty()) return absl::InvalidArgumentError("open run directory: the path is empty");
  // Again where somebody removed the directory between two of our calls.
  for (int attempt = 1;; ++attempt) {
    auto directory = TryOpen(name, options);
    struct stat parent;
    const bool again = options.create && attempt < kAttempts && IsGone(directory.status()) &&
                       ::stat(ParentOf(name).c_str(), &parent) == 0;
    if (!again) return directory;
  }
}

RunDirectory::~RunDirectory() {
  // The file stays: removing it would let two processes lock two different
  // files of the same name. Emptied, so that a later refusal names no old pid.
  (void)!::ftruncate(lock_fd_.get(), 0);
}

absl::Status RunDirectory::CheckEntries(absl::Span<const std::string> files,
                                        absl::Span<const std::string> directories,
                                        OtherNames others) const {
  std::vector<std::string> known(files.begin(), files.end());
  known.insert(known.end(), {kLockName, kOwnerName});
  return CheckOwnEntries(fd(), path_, known, directories, others);
}

absl::StatusOr<std::optional<RunRecord>> RunDirectory::ReadOwner() const {
  struct stat info;
  if (::fstatat(fd(), kOwnerName, &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return ErrnoStatus(errno, absl::StrCat("look at ", path_, "/", kOwnerName));
  }
  const std::optional<RunRecord> record = ReadRecordAt(fd(), kOwnerName);
  if (record) return record;
  return WrongBytesError(absl::StrCat(path_, "/", kOwnerName,
                                      " does not say whose directory it is; look at it, and "
                                      "remove it where the directory is this run's"));
}

absl::Status RunDirectory::WriteOwner(const RunRecord& owner) const {
  return WriteFileAtomically(absl::StrCat(path_, "/", kOwnerName), EncodeRunRecord(owner));
}

absl::StatusOr<uint64_t> RunDirectory::Remove(std::unique_ptr<RunDirectory> directory,
                                              absl::Span<const std::string> files) {
  const int fd = directory->fd();
  std::vector<std::string> names(files.begin(), files.end());
  names.push_back(kOwnerName);
  ASSIGN_OR_RETURN(const uint64_t removed_bytes, RemoveOwnFiles(fd, directory->path(), names));
  ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> left, ListDirectory(fd, directory->path()));
  if (left.size() != 1 || left[0].name != kLockName) return removed_bytes;
  // Under its lock to the end: whoever waits for it finds a file without a name, and comes again.
  ::unlinkat(fd, kLockName, 0);
  struct stat ours, named;
  if (::fstat(fd, &ours) == 0 && ::lstat(directory->path().c_str(), &named) == 0 &&
      ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) {
    ::rmdir(directory->path().c_str());
  }
  return removed_bytes;
}

absl::StatusOr<RunDirectoryGlance> GlanceAtRunDirectory(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("look at ", path));
  if (!S_ISDIR(info.st_mode)) {
    return absl::NotFoundError(absl::StrCat(path, " is not a directory"));
  }
  RunDirectoryGlance glance;
  glance.user = info.st_uid;
  glance.modified_seconds = info.st_mtim.tv_sec;
  const UniqueFd directory(RetryOnSignal(
      [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }));
  if (!directory.valid() || glance.user != ::geteuid()) return glance;
  ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, ListDirectory(directory.get(), path));
  glance.readable = true;
  for (const DirectoryEntry& entry : entries) {
    if (!entry.is_file) continue;
    glance.allocated_bytes += entry.allocated_bytes;
    if (entry.name != kLockName) {
      glance.modified_seconds = std::max(glance.modified_seconds, entry.modified_seconds);
    }
  }
  glance.owner = ReadRecordAt(directory.get(), kOwnerName);
  const UniqueFd lock(RetryOnSignal([&] {
    return ::openat(directory.get(), kLockName, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  }));
  if (!lock.valid()) return glance;
  // Shared: who glances does not keep another out.
  ASSIGN_OR_RETURN(const bool locked, TryLockFile(lock.get(), LockKind::kShared, path));
  glance.in_use = !locked;
  if (glance.in_use) glance.holder = ReadRecordAt(directory.get(), kLockName);
  return glance;
}

}  // namespace spillway
