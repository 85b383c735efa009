// The small-file half of io/file.h: whole files, buffered, atomically replaced.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"
#include "io/file.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr absl::string_view kTemporaryMark = ".tmp-";
constexpr size_t kTemporaryDigits = 16;

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return path.substr(0, std::max<size_t>(slash, 1));
}

absl::Status WriteAndSync(FileSystem& files, const std::string& path, absl::string_view content,
                          bool* taken) {
  ASSIGN_OR_RETURN(const std::unique_ptr<NewFile> file, files.Create(path));
  RETURN_IF_ERROR(file->Append(content));
  *taken = true;
  RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(absl::string_view path, uint64_t limit_bytes,
                                          SymbolicLink symbolic_link) {
  const std::string name(path);
  const int flags =
      O_RDONLY | O_CLOEXEC | (symbolic_link == SymbolicLink::kRefuse ? O_NOFOLLOW : 0);
  UniqueFd fd(RetryOnSignal([&] { return ::open(name.c_str(), flags); }));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", name));
  // Read to the end and not to st_size, which is 0 for files of /proc.
  constexpr size_t kChunkBytes = 64 << 10;
  std::string content;
  for (;;) {
    const size_t have_bytes = content.size();
    content.resize(have_bytes + kChunkBytes);
    const ssize_t got =
        RetryOnSignal([&] { return ::read(fd.get(), content.data() + have_bytes, kChunkBytes); });
    if (got < 0) {
      return ErrnoStatus(errno, absl::StrCat("read ", name, " at offset ", have_bytes));
    }
    content.resize(have_bytes + static_cast<size_t>(got));
    if (got == 0) return content;
    if (content.size() > limit_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("read ", name, ": larger than the limit of ",
                                                     limit_bytes,
                                                     " bytes for a file of this kind"));
    }
  }
}

absl::Status WriteFileAtomically(FileSystem& files, absl::string_view path,
                                 absl::string_view content, bool* taken) {
  bool ignored;
  if (taken == nullptr) taken = &ignored;
  *taken = false;
  const std::string name(path);
  // Random and not the process id: two containers that share a directory may
  // run under the same one.
  ASSIGN_OR_RETURN(const uint64_t random, files.RandomNumber());
  const std::string temporary = absl::StrFormat("%s%s%016x", name, kTemporaryMark, random);
  absl::Status status = WriteAndSync(files, temporary, content, taken);
  if (status.ok()) status = files.Rename(temporary, name);
  if (!status.ok()) {
    (void)files.Remove(temporary);
    return status;
  }
  return files.SyncDirectory(DirectoryOf(name));
}

absl::Status WriteFileAtomically(absl::string_view path, absl::string_view content) {
  return WriteFileAtomically(FileSystem::Real(), path, content);
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
  UniqueFd fd(::openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return;
  std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.get()), ::closedir);
  if (stream == nullptr) return;
  fd.Release();  // closedir closes it
  while (const dirent* entry = ::readdir(stream.get())) {
    if (IsAtomicWriteLeftover(entry->d_name)) ::unlinkat(directory_fd, entry->d_name, 0);
  }
}

void RemoveAtomicWriteLeftovers(absl::string_view directory) {
  const UniqueFd fd(::open(std::string(directory).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.valid()) RemoveAtomicWriteLeftovers(fd.get());
}

absl::Status SyncDirectory(absl::string_view path) {
  const std::string name(path);
  UniqueFd fd(
      RetryOnSignal([&] { return ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open directory ", name));
  if (RetryOnSignal([&] { return ::fsync(fd.get()); }) != 0) {
    return ErrnoStatus(errno, absl::StrCat("sync directory ", name));
  }
  return absl::OkStatus();
}

}  // namespace spillway
