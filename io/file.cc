#include "io/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "io/base/log.h"
#include "io/base/mutex.h"
#include "io/base/status.h"
#include "io/own_files.h"

namespace spillway {
namespace {

// What every drive and filesystem of today accepts.
constexpr uint32_t kUnknownAlignmentBytes = 4096;

// STATX_DIOALIGN came with Linux 6.1; the mask and the place of its two fields
// in the kernel's fixed layout are spelled out, so that older headers do.
constexpr unsigned kStatxDioAlign = 0x2000;
constexpr size_t kDioMemAlignAt = 152;
constexpr size_t kDioOffsetAlignAt = 156;
static_assert(sizeof(struct statx) == 256);

// The alignment of direct transfers; 0 where the kernel says that this file
// has none.
uint32_t DirectAlignmentBytes(int fd) {
  struct statx info;
  std::memset(&info, 0, sizeof(info));
  if (::statx(fd, "", AT_EMPTY_PATH, kStatxDioAlign, &info) != 0 ||
      (info.stx_mask & kStatxDioAlign) == 0) {
    return kUnknownAlignmentBytes;
  }
  uint32_t memory_bytes;
  uint32_t offset_bytes;
  std::memcpy(&memory_bytes, reinterpret_cast<const char*>(&info) + kDioMemAlignAt, 4);
  std::memcpy(&offset_bytes, reinterpret_cast<const char*>(&info) + kDioOffsetAlignAt, 4);
  if (memory_bytes == 0 || offset_bytes == 0) return 0;
  return std::max(memory_bytes, offset_bytes);
}

void WarnBufferedOnce(const std::string& path) {
  // More directories than a run has swap paths; beyond, silence beats a flood.
  constexpr size_t kDirectoriesRemembered = 64;
  static Mutex& mutex = *new Mutex;
  static std::set<std::string>& warned = *new std::set<std::string>;
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  {
    MutexLock lock(mutex);
    if (warned.size() >= kDirectoriesRemembered || !warned.insert(directory).second) return;
  }
  LogWarning(absl::StrCat("the filesystem of ", directory,
                          " has no direct I/O: files there go through the page cache, which is "
                          "slower and takes memory outside the budget"));
}

absl::Status NoSpace(const std::string& path, uint64_t needed_bytes, int error) {
  const absl::StatusOr<uint64_t> free_bytes = FreeSpaceBytes(path);
  return ErrnoStatus(error, absl::StrCat("reserve ", needed_bytes, " bytes for ", path, " (",
                                         free_bytes.ok() ? absl::StrCat(*free_bytes) : "unknown",
                                         " bytes are free)"));
}

class RealFile final : public File {
 public:
  RealFile(UniqueFd descriptor, std::string path, bool direct, uint32_t alignment_bytes)
      : File(descriptor.get(), std::move(path), direct, alignment_bytes),
        descriptor_(std::move(descriptor)) {}

  absl::Status Preallocate(uint64_t size_bytes) override;
  absl::StatusOr<uint64_t> SizeBytes() const override;
  absl::Status Sync() override;
  absl::Status ReadAt(uint64_t offset_bytes, char* data, uint64_t size_bytes) const override;
  absl::Status WriteAt(uint64_t offset_bytes, const char* data, uint64_t size_bytes) override;

 private:
  const UniqueFd descriptor_;
};

std::unique_ptr<File> MakeFile(UniqueFd fd, std::string name, bool ask_direct) {
  uint32_t alignment_bytes = 0;
  if (ask_direct) {
    alignment_bytes = EnableDirectIo(fd.get());
    if (alignment_bytes == 0) WarnBufferedOnce(name);
  }
  const bool direct = alignment_bytes != 0;
  return std::make_unique<RealFile>(std::move(fd), std::move(name), direct,
                                    direct ? alignment_bytes : 1);
}

}  // namespace

// Asked of the open file and not of open(): a refused open(O_CREAT | O_DIRECT) leaves an empty
// file behind.
uint32_t EnableDirectIo(int fd) {
  const uint32_t alignment_bytes = DirectAlignmentBytes(fd);
  if (alignment_bytes == 0) return 0;
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) return 0;
  return alignment_bytes;
}

File::File(int fd, std::string path, bool direct, uint32_t alignment_bytes)
    : fd_(fd), path_(std::move(path)), direct_(direct), alignment_bytes_(alignment_bytes) {}

uint32_t FileMode(FileAccess access) {
  return access == FileAccess::kPrivate ? 0600 : access == FileAccess::kReadable ? 0644 : 0666;
}

uint32_t DirectoryMode(FileAccess access) {
  return access == FileAccess::kPrivate ? 0700 : access == FileAccess::kReadable ? 0755 : 0777;
}

absl::StatusOr<std::unique_ptr<File>> File::Open(absl::string_view path,
                                                 const FileOptions& options) {
  std::string name(path);
  // Not blocking until it is known to be no pipe.
  int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (options.write ? O_RDWR : O_RDONLY);
  if (options.create) flags |= O_CREAT | O_EXCL;
  UniqueFd fd(RetryOnSignal([&] { return ::open(name.c_str(), flags, FileMode(options.access)); }));
  if (!fd.valid()) {
    return ErrnoStatus(errno, absl::StrCat(options.create ? "create " : "open ", name));
  }
  RETURN_IF_ERROR(options.write ? CheckOwnFile(fd.get(), name) : CheckRegularFile(fd.get(), name));
  if (::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK) != 0) {
    return ErrnoStatus(errno, absl::StrCat("open ", name));
  }
  return MakeFile(std::move(fd), std::move(name), options.direct);
}

absl::StatusOr<std::unique_ptr<File>> File::CreateNameless(absl::string_view directory,
                                                           bool direct) {
  ASSIGN_OR_RETURN(UniqueFd fd, CreateNamelessFile(directory, "a file"));
  // What messages call it; the directory too, so that its free space can be asked for.
  return MakeFile(std::move(fd), absl::StrCat(directory, "/."), direct);
}

absl::StatusOr<UniqueFd> CreateNamelessFile(absl::string_view directory, absl::string_view what) {
  const std::string name = absl::StrCat(directory, "/.");
  UniqueFd fd(RetryOnSignal(
      [&] { return ::open(name.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600); }));
  if (!fd.valid() && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    // Of a random name and not of the process's number, which a container on the same
    // filesystem has too.
    std::string passing = absl::StrCat(directory, "/.spillway-XXXXXX");
    fd = UniqueFd(::mkostemp(passing.data(), O_CLOEXEC));
    if (fd.valid() && ::unlink(passing.c_str()) != 0) {
      return ErrnoStatus(errno, absl::StrCat("unlink ", passing));
    }
  }
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("create ", what, " in ", directory));
  return fd;
}

absl::Status RealFile::Preallocate(uint64_t size_bytes) {
  ASSIGN_OR_RETURN(const uint64_t old_size_bytes, SizeBytes());
  int error = 0;
  if (size_bytes > 0 && RetryOnSignal([&] { return ::fallocate(fd(), 0, 0, size_bytes); }) != 0) {
    error = errno;
  }
  if (error == EOPNOTSUPP || error == ENOSYS) {
    // The next best thing: nothing is reserved, but what can't fit is refused.
    ASSIGN_OR_RETURN(const uint64_t free_bytes, FreeSpaceBytes(path()));
    const uint64_t growth_bytes = size_bytes - std::min(size_bytes, old_size_bytes);
    if (growth_bytes > free_bytes) return NoSpace(path(), size_bytes, ENOSPC);
    error = 0;
  }
  if (error != 0) {
    // What was reserved before the space ran out goes back (best effort: the
    // error is the answer either way).
    (void)!::ftruncate(fd(), static_cast<off_t>(old_size_bytes));
    return NoSpace(path(), size_bytes, error);
  }
  if (RetryOnSignal([&] { return ::ftruncate(fd(), static_cast<off_t>(size_bytes)); }) != 0) {
    return ErrnoStatus(errno, absl::StrCat("set the length of ", path(), " to ", size_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> RealFile::SizeBytes() const {
  struct stat info;
  if (::fstat(fd(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path()));
  return static_cast<uint64_t>(info.st_size);
}

absl::Status RealFile::Sync() {
  if (RetryOnSignal([&] { return ::fdatasync(fd()); }) != 0) {
    return ErrnoStatus(errno, absl::StrCat("sync ", path()));
  }
  return absl::OkStatus();
}

namespace {

// Calls `transfer(done_bytes)`, pread or pwrite of what is left, until all is moved.
template <typename Transfer>
absl::Status MoveAll(uint64_t size_bytes, uint64_t alignment_bytes,
                     const std::function<std::string()>& what, Transfer&& transfer) {
  uint64_t done_bytes = 0;
  while (done_bytes < size_bytes) {
    const ssize_t moved = RetryOnSignal([&] { return transfer(done_bytes); });
    if (moved < 0) return ErrnoStatus(errno, what());
    // Direct transfers must go on at an aligned place.
    const uint64_t units = static_cast<uint64_t>(moved) / alignment_bytes;
    if (units == 0) return ErrnoStatus(EIO, what());
    done_bytes += units * alignment_bytes;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RealFile::ReadAt(uint64_t offset_bytes, char* data, uint64_t size_bytes) const {
  return MoveAll(
      size_bytes, alignment_bytes(),
      [&] { return absl::StrCat("read ", size_bytes, " bytes at ", offset_bytes, " of ", path()); },
      [&](uint64_t done_bytes) {
        return ::pread(fd(), data + done_bytes, size_bytes - done_bytes,
                       static_cast<off_t>(offset_bytes + done_bytes));
      });
}

absl::Status RealFile::WriteAt(uint64_t offset_bytes, const char* data, uint64_t size_bytes) {
  return MoveAll(
      size_bytes, alignment_bytes(),
      [&] {
        return absl::StrCat("write ", size_bytes, " bytes at ", offset_bytes, " of ", path());
      },
      [&](uint64_t done_bytes) {
        return ::pwrite(fd(), data + done_bytes, size_bytes - done_bytes,
                        static_cast<off_t>(offset_bytes + done_bytes));
      });
}

absl::StatusOr<uint64_t> File::ReadUpTo(uint64_t offset_bytes, char* data,
                                        uint64_t size_bytes) const {
  uint64_t done_bytes = 0;
  while (done_bytes < size_bytes) {
    const ssize_t moved = RetryOnSignal([&] {
      return ::pread(fd(), data + done_bytes, size_bytes - done_bytes,
                     static_cast<off_t>(offset_bytes + done_bytes));
    });
    if (moved < 0) {
      return ErrnoStatus(
          errno, absl::StrCat("read ", size_bytes, " bytes at ", offset_bytes, " of ", path()));
    }
    done_bytes += static_cast<uint64_t>(moved);
    // No whole block: that was the file's end, behind which a direct transfer cannot go on.
    if (moved == 0 || done_bytes % alignment_bytes() != 0) break;
  }
  return done_bytes;
}

namespace {

// Whether a path names a descriptor that this process was started with, as a shell's <(command)
// does.
bool NamesDescriptor(absl::string_view path) {
  return path == "/dev/stdin" || absl::StartsWith(path, "/dev/fd/") ||
         absl::StartsWith(path, "/proc/self/fd/");
}

// Blocks until a pipe or terminal has bytes or its writers are gone. kCancelled: a handler of a
// signal has run meanwhile, since poll is never restarted.
absl::Status WaitForBytes(int fd, const std::string& name) {
  pollfd waits = {fd, POLLIN, 0};
  if (::poll(&waits, 1, /*timeout=*/-1) >= 0) return absl::OkStatus();
  if (errno == EINTR) {
    return absl::CancelledError(absl::StrCat("read ", name, ": a signal came before its end"));
  }
  return ErrnoStatus(errno, absl::StrCat("wait for ", name));
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(absl::string_view path, uint64_t limit_bytes,
                                          SymbolicLink symbolic_link) {
  const std::string name(path);
  // O_NONBLOCK: open would wait for ever for the writer of a named pipe.
  const int flags =
      O_RDONLY | O_CLOEXEC | O_NONBLOCK | (symbolic_link == SymbolicLink::kRefuse ? O_NOFOLLOW : 0);
  UniqueFd fd(RetryOnSignal([&] { return ::open(name.c_str(), flags); }));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", name));
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", name));
  if (S_ISFIFO(info.st_mode) && !NamesDescriptor(name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " is a named pipe and not a plain file; a pipe is read as /dev/stdin or /dev/fd/N"));
  }
  // Read to the end and not to st_size, which is 0 for files of /proc.
  constexpr size_t kChunkBytes = 64 << 10;
  std::string content;
  for (;;) {
    const size_t have_bytes = content.size();
    content.resize(have_bytes + kChunkBytes);
    const ssize_t got =
        RetryOnSignal([&] { return ::read(fd.get(), content.data() + have_bytes, kChunkBytes); });
    if (got < 0 && errno != EAGAIN) {
      return ErrnoStatus(errno, absl::StrCat("read ", name, " at offset ", have_bytes));
    }
    content.resize(have_bytes + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return content;
    if (got < 0) {
      RETURN_IF_ERROR(WaitForBytes(fd.get(), name));
      continue;
    }
    if (content.size() > limit_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("read ", name, ": larger than the limit of ",
                                                     limit_bytes,
                                                     " bytes for a file of this kind"));
    }
  }
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

absl::StatusOr<uint64_t> FreeSpaceBytes(absl::string_view path) {
  const std::string name(path);
  struct statvfs info;
  if (RetryOnSignal([&] { return ::statvfs(name.c_str(), &info); }) != 0) {
    return ErrnoStatus(errno, absl::StrCat("ask for the free space of ", name));
  }
  if (info.f_blocks == 0) return UINT64_MAX;
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

}  // namespace spillway
