// A file that is read and written in whole blocks, around the page cache
// where the filesystem lets us.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "io/base/unique_fd.h"

namespace spillway {

// Which other users may use a file or a directory that is created. The umask takes permissions away
// from all of them, as everywhere.
enum class FileAccess : uint8_t {
  kPrivate,   // none: mode 0600, of a directory 0700. State and locks of a run
  kReadable,  // they may read it: 0644, 0755. A run's OUTPUT, whose entries it must be able to
              // trust
  kShared,    // what the umask allows: 0666, 0777. What a run makes for others to use
};
uint32_t FileMode(FileAccess access);
uint32_t DirectoryMode(FileAccess access);

struct FileOptions {
  bool write = false;
  // Create the file; it must not exist (O_CREAT | O_EXCL).
  bool create = false;
  FileAccess access = FileAccess::kPrivate;  // of a file that is created
  // Ask for O_DIRECT. Where the filesystem refuses, the file is opened
  // buffered, a warning says so once per directory, and direct() is false.
  bool direct = true;
};

// Any thread; closed by the destructor. Virtual for the simulated disk of tests/sim;
// see io/file_system.h.
class File {
 public:
  // A file of this machine. Never follows a symbolic link in the last component
  // (O_NOFOLLOW), always close-on-exec.
  static absl::StatusOr<std::unique_ptr<File>> Open(absl::string_view path,
                                                    const FileOptions& options);
  // A file in `directory` that has no name, or, where the filesystem has no such files, has lost
  // it at once: no other process meets it, and nothing of it stays when this one ends or dies.
  // `direct` as in FileOptions.
  static absl::StatusOr<std::unique_ptr<File>> CreateNameless(absl::string_view directory,
                                                              bool direct);
  virtual ~File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  bool direct() const { return direct_; }

  // Offsets, sizes and addresses of transfers must be multiples of this:
  // statx's DIOALIGN where the kernel tells, else 4096; 1 when buffered.
  uint32_t alignment_bytes() const { return alignment_bytes_; }

  // Makes the file exactly `size_bytes` long with its space reserved
  // (fallocate), so that a full disk is an error now and not mid-run. Where
  // the filesystem has no fallocate, the free space is checked and the length
  // set. kResourceExhausted names the path, what is needed and what is free.
  virtual absl::Status Preallocate(uint64_t size_bytes) = 0;

  virtual absl::StatusOr<uint64_t> SizeBytes() const = 0;

  // fdatasync. After a failure the data must be treated as lost: a second
  // call may succeed falsely.
  virtual absl::Status Sync() = 0;

  // One transfer of all the bytes, waited for: for what is read or written at rest.
  // REQUIRES: aligned as above.
  virtual absl::Status ReadAt(uint64_t offset_bytes, char* data, uint64_t size_bytes) const = 0;
  virtual absl::Status WriteAt(uint64_t offset_bytes, const char* data, uint64_t size_bytes) = 0;

  // As ReadAt, but the file may end before `size_bytes`: how many there were.
  virtual absl::StatusOr<uint64_t> ReadUpTo(uint64_t offset_bytes, char* data,
                                            uint64_t size_bytes) const;

 protected:
  File(int fd, std::string path, bool direct, uint32_t alignment_bytes);

 private:
  const int fd_;
  const std::string path_;
  const bool direct_;
  const uint32_t alignment_bytes_;
};

// The descriptor of such a file, for what is written and read at any offset. `what` it is in an
// error: "a file".
absl::StatusOr<UniqueFd> CreateNamelessFile(absl::string_view directory, absl::string_view what);

// Whether a symbolic link in the last component is followed: yes for what a
// user names, no for what lies inside a run's own directory.
enum class SymbolicLink { kFollow, kRefuse };

// What a small file has at most where nothing else is said.
inline constexpr uint64_t kSmallFileBytes = 256 << 20;

// Small files whole, with buffered I/O and full error messages. A file longer
// than `limit_bytes` is kInvalidArgument. A pipe is read to its end where `path` is /dev/stdin
// or /dev/fd/N (a shell's <(command)); another named pipe is kInvalidArgument at once. kCancelled:
// a signal was handled while the pipe had no bytes.
absl::StatusOr<std::string> ReadSmallFile(absl::string_view path,
                                          uint64_t limit_bytes = kSmallFileBytes,
                                          SymbolicLink symbolic_link = SymbolicLink::kFollow);

// fsync of a directory: makes creations and renames inside it durable.
absl::Status SyncDirectory(absl::string_view path);

// Takes O_DIRECT for an open file where it is to be had. The alignment of its transfers; 0
// where there is none, and the file stays buffered.
uint32_t EnableDirectIo(int fd);

// Bytes an ordinary user may still allocate on the filesystem of `path`.
absl::StatusOr<uint64_t> FreeSpaceBytes(absl::string_view path);

}  // namespace spillway
