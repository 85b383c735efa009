#include "io/own_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"

namespace spillway {
namespace {

// st_blocks counts these, whatever the filesystem's own blocks are.
constexpr uint64_t kStatBlockBytes = 512;

constexpr absl::string_view kTemporaryMark = ".tmp-";
constexpr size_t kTemporaryDigits = 16;

const char* KindName(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISBLK(mode) || S_ISCHR(mode)) return "a device";
  return "a file";
}

constexpr char kRemedy[] = "find out who put it there, then remove it or name another directory";

absl::Status CheckOwner(const struct stat& info, absl::string_view path) {
  if (info.st_uid == ::geteuid()) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrFormat("%s belongs to user %d, not to user %d: %s",
                                                     path, info.st_uid, ::geteuid(), kRemedy));
}

absl::Status CheckRegular(const struct stat& info, absl::string_view path) {
  if (S_ISREG(info.st_mode)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is ", KindName(info.st_mode), " where the run keeps a file: ", kRemedy));
}

absl::Status CheckFile(const struct stat& info, absl::string_view path) {
  RETURN_IF_ERROR(CheckRegular(info, path));
  RETURN_IF_ERROR(CheckOwner(info, path));
  if (info.st_nlink > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is a hard link to a file that has another name elsewhere: ", kRemedy));
  }
  return absl::OkStatus();
}

absl::Status CheckDirectory(const struct stat& info, absl::string_view path) {
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " is ", KindName(info.st_mode), " where the run keeps a directory: ", kRemedy));
  }
  return CheckOwner(info, path);
}

template <typename Visit>
absl::Status ForEachEntry(int directory_fd, absl::string_view path, Visit visit) {
  UniqueFd fd(::openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("list ", path));
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.get()), ::closedir);
  if (stream == nullptr) return ErrnoStatus(errno, absl::StrCat("list ", path));
  fd.Release();  // closedir closes it
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat info;
    if (::fstatat(directory_fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;
      return ErrnoStatus(errno, absl::StrCat("look at ", path, "/", name));
    }
    RETURN_IF_ERROR(visit(name, info));
  }
  return absl::OkStatus();
}

bool Contains(absl::Span<const std::string> names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

absl::Status CheckOwnFile(int fd, absl::string_view path) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, absl::StrCat("look at ", path));
  return CheckFile(info, path);
}

absl::Status CheckRegularFile(int fd, absl::string_view path) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, absl::StrCat("look at ", path));
  return CheckRegular(info, path);
}

std::string AtomicWriteName(absl::string_view path, uint64_t random) {
  return absl::StrFormat("%s%s%016x", path, kTemporaryMark, random);
}

bool IsAtomicWriteLeftover(absl::string_view name) {
  const size_t tail = kTemporaryMark.size() + kTemporaryDigits;
  if (name.size() <= tail) return false;
  const absl::string_view end = name.substr(name.size() - tail);
  return absl::StartsWith(end, kTemporaryMark) &&
         end.find_first_not_of("0123456789abcdef", kTemporaryMark.size()) ==
             absl::string_view::npos;
}

void RemoveAtomicWriteLeftovers(int directory_fd) {
  (void)ForEachEntry(directory_fd, "", [&](const std::string& name, const struct stat&) {
    if (IsAtomicWriteLeftover(name)) ::unlinkat(directory_fd, name.c_str(), 0);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<DirectoryEntry>> ListDirectory(int directory_fd,
                                                          absl::string_view path) {
  std::vector<DirectoryEntry> entries;
  RETURN_IF_ERROR(
      ForEachEntry(directory_fd, path, [&](const std::string& name, const struct stat& info) {
        entries.push_back({name, S_ISREG(info.st_mode), S_ISDIR(info.st_mode),
                           static_cast<uint64_t>(info.st_blocks) * kStatBlockBytes,
                           info.st_mtim.tv_sec});
        return absl::OkStatus();
      }));
  std::sort(entries.begin(), entries.end(),
            [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
  return entries;
}

absl::Status CheckOwnEntries(int directory_fd, absl::string_view path,
                             absl::Span<const std::string> files,
                             absl::Span<const std::string> directories, OtherNames others) {
  return ForEachEntry(directory_fd, path,
                      [&](const std::string& name, const struct stat& info) -> absl::Status {
                        const std::string full = absl::StrCat(path, "/", name);
                        if (Contains(files, name) || IsAtomicWriteLeftover(name)) {
                          return CheckFile(info, full);
                        }
                        if (Contains(directories, name)) return CheckDirectory(info, full);
                        if (others == OtherNames::kIgnored) return absl::OkStatus();
                        return absl::FailedPreconditionError(
                            absl::StrCat(full, " is ", KindName(info.st_mode),
                                         " that no run put into its own directory: ", kRemedy));
                      });
}

absl::StatusOr<uint64_t> RemoveOwnFiles(int directory_fd, absl::string_view path,
                                        absl::Span<const std::string> names) {
  uint64_t removed_bytes = 0;
  RETURN_IF_ERROR(ForEachEntry(
      directory_fd, path, [&](const std::string& name, const struct stat& info) -> absl::Status {
        if (!Contains(names, name) && !IsAtomicWriteLeftover(name)) return absl::OkStatus();
        const std::string full = absl::StrCat(path, "/", name);
        RETURN_IF_ERROR(CheckFile(info, full));
        if (::unlinkat(directory_fd, name.c_str(), 0) != 0 && errno != ENOENT) {
          return ErrnoStatus(errno, absl::StrCat("remove ", full));
        }
        removed_bytes += static_cast<uint64_t>(info.st_blocks) * kStatBlockBytes;
        return absl::OkStatus();
      }));
  return removed_bytes;
}

}  // namespace spillway
