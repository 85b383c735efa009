#include "io/own_files.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "io/base/status.h"

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

absl::Status CheckOwner(const DirectoryEntry& entry, absl::string_view path) {
  if (entry.user == ::geteuid()) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrFormat("%s belongs to user %d, not to user %d: %s",
                                                     path, entry.user, ::geteuid(), kRemedy));
}

absl::Status CheckRegular(const DirectoryEntry& entry, absl::string_view path) {
  if (entry.is_file) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is ", entry.kind, " where the run keeps a file: ", kRemedy));
}

}  // namespace

DirectoryEntry EntryOf(std::string name, const struct stat& info) {
  DirectoryEntry entry;
  entry.name = std::move(name);
  entry.is_file = S_ISREG(info.st_mode);
  entry.is_directory = S_ISDIR(info.st_mode);
  entry.kind = KindName(info.st_mode);
  entry.user = info.st_uid;
  entry.links = info.st_nlink;
  entry.allocated_bytes = static_cast<uint64_t>(info.st_blocks) * kStatBlockBytes;
  entry.modified_seconds = info.st_mtim.tv_sec;
  return entry;
}

absl::Status CheckOwnEntry(const DirectoryEntry& entry, absl::string_view path) {
  RETURN_IF_ERROR(CheckRegular(entry, path));
  RETURN_IF_ERROR(CheckOwner(entry, path));
  if (entry.links > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is a hard link to a file that has another name elsewhere: ", kRemedy));
  }
  return absl::OkStatus();
}

absl::Status CheckOwnSubdirectory(const DirectoryEntry& entry, absl::string_view path) {
  if (!entry.is_directory) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is ", entry.kind, " where the run keeps a directory: ", kRemedy));
  }
  return CheckOwner(entry, path);
}

absl::Status RefuseOther(const DirectoryEntry& entry, absl::string_view path) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is ", entry.kind, " that no run put into its own directory: ", kRemedy));
}

absl::Status CheckOwnFile(int fd, absl::string_view path) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, absl::StrCat("look at ", path));
  return CheckOwnEntry(EntryOf("", info), path);
}

absl::Status CheckRegularFile(int fd, absl::string_view path) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, absl::StrCat("look at ", path));
  return CheckRegular(EntryOf("", info), path);
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

}  // namespace spillway
