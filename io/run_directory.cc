#include "io/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "io/file.h"
#include "io/status.h"
#include "io/unique_fd.h"

namespace spillway {
namespace {

constexpr char kLockName[] = "lock";

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

std::string ReadHolder(int lock_fd) {
  // The holder writes its line just after it takes the lock.
  for (int attempt = 0; attempt < 20; ++attempt) {
    char line[320];
    const ssize_t got = RetryOnSignal([&] { return ::pread(lock_fd, line, sizeof(line), 0); });
    if (got > 1 && line[got - 1] == '\n') return std::string(line, got - 1);
    absl::SleepFor(absl::Milliseconds(10));
  }
  return "that has not said who it is";
}

absl::StatusOr<UniqueFd> TakeLock(int directory_fd, const std::string& path) {
  UniqueFd fd(RetryOnSignal([&] {
    return ::openat(directory_fd, kLockName, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  }));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path, "/", kLockName));
  if (RetryOnSignal([&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB); }) != 0) {
    if (errno == EWOULDBLOCK) {
      return absl::FailedPreconditionError(
          absl::StrCat("open run directory ", path, ": in use by process ", ReadHolder(fd.get()),
                       "; wait for it, stop it, or name another directory"));
    }
    return ErrnoStatus(errno, absl::StrCat("lock ", path, "/", kLockName));
  }
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  if (info.st_nlink == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "open run directory ", path, ": a process that ended just now removed it; try again"));
  }
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  const std::string line = absl::StrCat(::getpid(), " on ", host, "\n");
  if (::ftruncate(fd.get(), 0) != 0 || RetryOnSignal([&] {
                                         return ::pwrite(fd.get(), line.data(), line.size(), 0);
                                       }) != static_cast<ssize_t>(line.size())) {
    return ErrnoStatus(errno, absl::StrCat("write ", path, "/", kLockName));
  }
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunDirectory>> RunDirectory::Open(absl::string_view path) {
  std::string name = WithoutTrailingSlashes(path);
  if (name.empty()) return absl::InvalidArgumentError("open run directory: the path is empty");
  RETURN_IF_ERROR(Create(name));
  ASSIGN_OR_RETURN(const UniqueFd directory, OpenOwned(name));
  ASSIGN_OR_RETURN(UniqueFd lock, TakeLock(directory.get(), name));
  RemoveAtomicWriteLeftovers(directory.get());  // of a killed predecessor
  return std::unique_ptr<RunDirectory>(new RunDirectory(std::move(name), lock.Release()));
}

RunDirectory::~RunDirectory() {
  // The file stays: removing it would let two processes lock two different
  // files of the same name. Emptied, so that a later refusal names no old pid.
  (void)!::ftruncate(lock_fd_, 0);
  ::close(lock_fd_);
}

}  // namespace spillway
