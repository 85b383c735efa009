// A file that is read and written in whole blocks, bypassing the page cache where the filesystem
// allows it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "io/base/unique_fd.h"

namespace spillway {

// Permissions of created files and directories for other users, further reduced by the umask.
enum class FileAccess : uint8_t {
  kPrivate,   // mode 0600, directories 0700: state and locks of a run
  kReadable,  // 0644 and 0755: OUTPUT, which others may read but whose entries the run
              // must be able to trust
  kShared,    // 0666 and 0777: files that a run makes for others to use
};
uint32_t FileMode(FileAccess access);
uint32_t DirectoryMode(FileAccess access);

struct FileOptions {
  bool write = false;
  // Create the file; it must not exist (O_CREAT | O_EXCL).
  bool create = false;
  FileAccess access = FileAccess::kPrivate;  // of a created file
  // Ask for O_DIRECT. Where the filesystem refuses, the file is opened
  // buffered, a warning says so once per directory, and direct() is false.
  bool direct = true;
};

// Any thread; closed by the destructor. Virtual for the simulated disk of tests/sim;
// see io/file_system.h.
class File {
 public:
  // Opens a file on this machine. Never follows a symbolic link in the last component (O_NOFOLLOW),
  // always close-on-exec.
  static absl::StatusOr<std::unique_ptr<File>> Open(absl::string_view path,
                                                    const FileOptions& options);
  // Creates a file without a name in `directory` (or, if the filesystem lacks that, unlinks it at
  // once). No other process can open it, and it vanishes when this process ends. `direct`: as in
  // FileOptions.
  static absl::StatusOr<std::unique_ptr<File>> CreateNameless(absl::string_view directory,
                                                              bool direct);
  virtual ~File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  bool direct() const { return direct_; }

  // Alignment of transfers' offsets, sizes and addresses: statx's DIOALIGN if the kernel reports
  // it, else 4096; 1 when buffered.
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

  // Transfers all the bytes synchronously; for data outside a step. REQUIRES: aligned as above.
  virtual absl::Status ReadAt(uint64_t offset_bytes, char* data, uint64_t size_bytes) const = 0;
  virtual absl::Status WriteAt(uint64_t offset_bytes, const char* data, uint64_t size_bytes) = 0;

  // Like ReadAt, but the file may end before `size_bytes`; returns the number of bytes read.
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

// The descriptor of a file without a name, for reads and writes at any offset. `what` names the
// file in an error: "a file".
absl::StatusOr<UniqueFd> CreateNamelessFile(absl::string_view directory, absl::string_view what);

// Whether a symbolic link in the last component is followed: yes for what a
// user names, no for what lies inside a run's own directory.
enum class SymbolicLink { kFollow, kRefuse };

// The default size limit of small files.
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

// Sets O_DIRECT on an open file if the filesystem supports it. Returns the alignment of transfers;
// 0 if the file stays buffered.
uint32_t EnableDirectIo(int fd);

// Bytes an ordinary user may still allocate on the filesystem of `path`.
absl::StatusOr<uint64_t> FreeSpaceBytes(absl::string_view path);

}  // namespace spillway
