#include "io/own_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"

namespace spillway {
namespace {

bool Contains(absl::Span<const std::string> names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class RealLockFile final : public LockFile {
 public:
  RealLockFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::StatusOr<bool> TryLock(LockKind kind) override {
    return TryLockFile(fd_.get(), kind, path_);
  }

  absl::StatusOr<bool> IsNamed() const override {
    struct stat info;
    if (::fstat(fd_.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("look at ", path_));
    return info.st_nlink > 0;
  }

  absl::Status Write(absl::string_view text) override {
    const bool written =
        ::ftruncate(fd_.get(), 0) == 0 && RetryOnSignal([&] {
                                            return ::pwrite(fd_.get(), text.data(), text.size(), 0);
                                          }) == static_cast<ssize_t>(text.size());
    return written ? absl::OkStatus() : ErrnoStatus(errno, absl::StrCat("write ", path_));
  }

 private:
  UniqueFd fd_;
  const std::string path_;
};

class RealOwnDirectory final : public OwnDirectory {
 public:
  RealOwnDirectory(UniqueFd fd, std::string path)
      : OwnDirectory(std::move(path)), fd_(std::move(fd)) {}

  absl::StatusOr<std::vector<DirectoryEntry>> List() const override {
    UniqueFd fd(::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("list ", path()));
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.get()), ::closedir);
    if (stream == nullptr) return ErrnoStatus(errno, absl::StrCat("list ", path()));
    fd.Release();  // closedir closes it
    std::vector<DirectoryEntry> entries;
    while (const dirent* entry = ::readdir(stream.get())) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat info;
      if (::fstatat(fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) continue;
        return ErrnoStatus(errno, absl::StrCat("look at ", PathOf(name)));
      }
      entries.push_back(EntryOf(name, info));
    }
    std::sort(entries.begin(), entries.end(),
              [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
    return entries;
  }

  absl::StatusOr<std::string> ReadFile(const std::string& name, size_t most_bytes) const override {
    const UniqueFd fd(OpenAt(name, O_RDONLY));
    if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", PathOf(name)));
    RETURN_IF_ERROR(CheckOwnFile(fd.get(), PathOf(name)));
    std::string text(most_bytes, '\0');
    const ssize_t got =
        RetryOnSignal([&] { return ::pread(fd.get(), text.data(), text.size(), 0); });
    if (got < 0) return ErrnoStatus(errno, absl::StrCat("read ", PathOf(name)));
    text.resize(got);
    return text;
  }

  absl::StatusOr<std::unique_ptr<OwnDirectory>> OpenDirectory(
      const std::string& name) const override {
    UniqueFd fd(OpenAt(name, O_RDONLY | O_DIRECTORY));
    if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", PathOf(name)));
    return std::make_unique<RealOwnDirectory>(std::move(fd), PathOf(name));
  }

  absl::Status CreateDirectory(const std::string& name) const override {
    if (::mkdirat(fd_.get(), name.c_str(), 0700) == 0) return absl::OkStatus();
    return ErrnoStatus(errno, absl::StrCat("create directory ", PathOf(name)));
  }

  absl::StatusOr<std::unique_ptr<LockFile>> OpenLock(const std::string& name,
                                                     bool create) const override {
    UniqueFd fd(OpenAt(name, O_RDWR | (create ? O_CREAT : 0)));
    if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", PathOf(name)));
    struct stat info;
    // IsNamed reports a file that was removed since open.
    if (::fstat(fd.get(), &info) != 0 || info.st_nlink > 0) {
      RETURN_IF_ERROR(CheckOwnFile(fd.get(), PathOf(name)));
    }
    return std::make_unique<RealLockFile>(std::move(fd), PathOf(name));
  }

  absl::Status Remove(const std::string& name) const override {
    if (::unlinkat(fd_.get(), name.c_str(), 0) == 0) return absl::OkStatus();
    return ErrnoStatus(errno, absl::StrCat("remove ", PathOf(name)));
  }

  absl::Status RemoveDirectory(const std::string& name) const override {
    if (::unlinkat(fd_.get(), name.c_str(), AT_REMOVEDIR) == 0) return absl::OkStatus();
    if (errno == ENOTEMPTY || errno == EEXIST) {
      return absl::FailedPreconditionError(absl::StrCat(PathOf(name), " is not empty"));
    }
    return ErrnoStatus(errno, absl::StrCat("remove ", PathOf(name)));
  }

  absl::Status Sync() const override {
    if (::fsync(fd_.get()) == 0) return absl::OkStatus();
    return ErrnoStatus(errno, absl::StrCat("sync ", path()));
  }

  bool IsStillNamed() const override {
    struct stat ours, named;
    return ::fstat(fd_.get(), &ours) == 0 && ::lstat(path().c_str(), &named) == 0 &&
           ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
  }

  bool IsRemoved() const override {
    struct stat ours;
    return ::fstat(fd_.get(), &ours) == 0 && ours.st_nlink == 0;
  }

 private:
  std::string PathOf(const std::string& name) const { return absl::StrCat(path(), "/", name); }

  // Nonblocking: the entry may be a planted pipe.
  int OpenAt(const std::string& name, int flags) const {
    return RetryOnSignal([&] {
      return ::openat(fd_.get(), name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    });
  }

  const UniqueFd fd_;
};

absl::Status RefuseOwner(absl::string_view path, uint32_t user) {
  return absl::PermissionDeniedError(absl::StrFormat(
      "open run directory %s: it belongs to user %d, not to user %d; name another directory", path,
      user, ::geteuid()));
}

}  // namespace

absl::Status OwnDirectory::CheckEntries(absl::Span<const std::string> files,
                                        absl::Span<const std::string> directories,
                                        OtherNames others) const {
  ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, List());
  for (const DirectoryEntry& entry : entries) {
    const std::string full = absl::StrCat(path_, "/", entry.name);
    if (Contains(files, entry.name) || IsAtomicWriteLeftover(entry.name)) {
      RETURN_IF_ERROR(CheckOwnEntry(entry, full));
    } else if (Contains(directories, entry.name)) {
      RETURN_IF_ERROR(CheckOwnSubdirectory(entry, full));
    } else if (others == OtherNames::kRefused) {
      return RefuseOther(entry, full);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> OwnDirectory::RemoveFiles(absl::Span<const std::string> names) const {
  uint64_t removed_bytes = 0;
  ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, List());
  for (const DirectoryEntry& entry : entries) {
    if (!Contains(names, entry.name) && !IsAtomicWriteLeftover(entry.name)) continue;
    RETURN_IF_ERROR(CheckOwnEntry(entry, absl::StrCat(path_, "/", entry.name)));
    const absl::Status removed = Remove(entry.name);
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
    removed_bytes += entry.allocated_bytes;
  }
  return removed_bytes;
}

void OwnDirectory::RemoveLeftovers() const {
  const auto entries = List();
  if (!entries.ok()) return;
  for (const DirectoryEntry& entry : *entries) {
    if (IsAtomicWriteLeftover(entry.name)) Remove(entry.name).IgnoreError();
  }
}

absl::StatusOr<std::unique_ptr<OwnDirectory>> OpenOwnDirectory(absl::string_view path,
                                                               DirectoryUse use) {
  std::string name(path);
  UniqueFd fd(RetryOnSignal(
      [&] { return ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }));
  struct stat info;
  if (!fd.valid()) {
    const int error = errno;
    if (::lstat(name.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
      return absl::FailedPreconditionError(
          absl::StrCat("open run directory ", name,
                       ": it is a symbolic link, which somebody else could turn elsewhere; name "
                       "the directory it points to"));
    }
    if (::lstat(name.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid != ::geteuid()) {
      return RefuseOwner(name, info.st_uid);
    }
    return ErrnoStatus(error, absl::StrCat("open run directory ", name));
  }
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", name));
  if (info.st_uid != ::geteuid()) return RefuseOwner(name, info.st_uid);
  if (use != DirectoryUse::kLook) {
    if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
      return absl::PermissionDeniedError(absl::StrFormat(
          "open run directory %s: other users may write to it (mode %04o), so its contents cannot "
          "be trusted; `chmod 700` it if they can, or name another directory",
          name, info.st_mode & 07777));
    }
    const bool hide = use == DirectoryUse::kForOurs && (info.st_mode & 07777) != 0700;
    if (hide && ::fchmod(fd.get(), 0700) != 0) {
      return ErrnoStatus(errno, absl::StrCat("set mode 0700 on ", name));
    }
  }
  return std::make_unique<RealOwnDirectory>(std::move(fd), std::move(name));
}

}  // namespace spillway
