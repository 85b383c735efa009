// The file operations of swap/ and engine/run/. All their access to disks goes through this
// interface, so that a test can substitute a simulated disk (tests/sim). A run's own directories
// and locks must not be exchanged while it runs, so they stay open (io/own_directory.h). Only io/
// may use std::filesystem and the system calls that rename and remove.
//
// The primitives of an atomic write are separate on purpose: WriteFileAtomically is composed of
// them, and a simulated disk sees which of them were left out. Paths are absolute. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "io/file.h"
#include "io/own_directory.h"

namespace spillway {

class IoEngine;
struct IoEngineOptions;

// A small new file that is being written, buffered. One thread. The destructor closes it and
// ignores errors.
class NewFile {
 public:
  virtual ~NewFile() = default;
  virtual absl::Status Append(absl::string_view content) = 0;
  // fdatasync; see File::Sync.
  virtual absl::Status Sync() = 0;
  // Network filesystems report a full disk only here. Called once, and last.
  virtual absl::Status Close() = 0;
};

// The metadata of a path, as from stat.
struct FileInfo {
  enum class Kind { kFile, kDirectory, kOther };
  Kind kind = Kind::kOther;
  uint32_t user = 0;             // the owner's id
  uint64_t size_bytes = 0;       // of a regular file
  uint64_t allocated_bytes = 0;  // on the drive
  int64_t modified_ns = 0;       // mtime, since 1970
  // Device and inode: equal if two paths name the same object.
  std::pair<uint64_t, uint64_t> identity;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // The machine's file system. Never destroyed.
  static FileSystem& Real();

  // See File::Open.
  virtual absl::StatusOr<std::unique_ptr<File>> Open(absl::string_view path,
                                                     const FileOptions& options) = 0;
  // An engine for transfers of this file system's files. See CreateIoEngine.
  virtual absl::StatusOr<std::unique_ptr<IoEngine>> CreateEngine(
      const IoEngineOptions& options) = 0;
  // Whether code that transfers its bytes may start threads. False if all events must be
  // reproducible in order, as on the simulated disk of tests/sim.
  virtual bool may_start_threads() const { return true; }
  // See spillway::ReadSmallFile; a link in the last component is followed.
  virtual absl::StatusOr<std::string> ReadSmallFile(absl::string_view path,
                                                    uint64_t limit_bytes = kSmallFileBytes) = 0;

  // Creates a file that must not exist; links are not followed.
  virtual absl::StatusOr<std::unique_ptr<NewFile>> Create(absl::string_view path,
                                                          FileAccess access) = 0;
  // Replaces an existing file.
  virtual absl::Status Rename(absl::string_view from, absl::string_view to) = 0;
  // kNotFound if it does not exist.
  virtual absl::Status Remove(absl::string_view path) = 0;
  // fsync: creations, renames and removals in the directory are durable afterwards.
  virtual absl::Status SyncDirectory(absl::string_view path) = 0;

  // For names that no other process uses.
  virtual absl::StatusOr<uint64_t> RandomNumber() = 0;

  // kAlreadyExists if the name is taken by anything.
  virtual absl::Status CreateDirectory(absl::string_view path, FileAccess access) = 0;
  // kNotFound if it does not exist; an error if it is not empty.
  virtual absl::Status RemoveDirectory(absl::string_view path) = 0;
  // The names in a directory, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(absl::string_view path) = 0;
  // stat; with kRefuse lstat, so that a link is kOther. kNotFound if nothing exists.
  virtual absl::StatusOr<FileInfo> Stat(absl::string_view path,
                                        SymbolicLink symbolic_link = SymbolicLink::kRefuse) = 0;
  // An absolute path without links and dots, as far as the path exists.
  virtual std::string Resolve(absl::string_view path) = 0;

  // See OpenOwnDirectory.
  virtual absl::StatusOr<std::unique_ptr<OwnDirectory>> OpenOwn(absl::string_view path,
                                                                DirectoryUse use) = 0;
  // Bytes that an unprivileged user may still write to the file system of `path`.
  virtual absl::StatusOr<uint64_t> FreeBytes(absl::string_view path) = 0;
  // Whether this user may create files in the directory.
  virtual bool MayWriteIn(absl::string_view path) = 0;
  // Sleeps while waiting for files of other processes.
  virtual void Pause(absl::Duration time) = 0;
};

// Makes the creation of `path` durable. Parents that cannot be read or synced (as in a read-only
// image) are skipped: their content is as good, only less durable in its first seconds.
absl::Status SyncIntoParent(FileSystem& files, absl::string_view path);

// Creates the directory and its missing parents. Each level, and the first existing one, is synced
// into its parent. Prepends the new levels to `created`, deepest first.
absl::Status CreateDirectories(FileSystem& files, absl::string_view path, FileAccess access,
                               std::vector<std::string>* created = nullptr);

// Opens a file for buffered writes at any offset; creates it if it does not exist.
absl::StatusOr<std::unique_ptr<File>> OpenInPlace(FileSystem& files, absl::string_view path,
                                                  FileAccess access);

// Removes a file; OK if it does not exist.
absl::Status RemoveIfThere(FileSystem& files, absl::string_view path);

// Whether the path (or a directory there) exists, links followed. False if that cannot be
// determined.
bool Exists(absl::string_view path, FileSystem& files = FileSystem::Real());
bool IsDirectory(absl::string_view path, FileSystem& files = FileSystem::Real());
// Whether both paths name the same file or directory, links followed.
bool SameFile(absl::string_view a, absl::string_view b, FileSystem& files = FileSystem::Real());

// "/a" of "/a/b", "/" of "/a", "." of "a"; and "b" of "/a/b".
std::string ParentPath(absl::string_view path);
std::string FileName(absl::string_view path);

// The path without ".", "..", doubled and trailing slashes; purely lexical.
std::string NormalPath(absl::string_view path);
// The path from `directory` to `path`; purely lexical.
std::string RelativePath(absl::string_view path, absl::string_view directory);
// The path made absolute from the working directory; links stay.
absl::StatusOr<std::string> AbsolutePath(absl::string_view path);
// The absolute path of an existing file of this machine, without links and dots. Errors begin with
// `what`.
absl::StatusOr<std::string> CanonicalPath(absl::string_view path, absl::string_view what);
// TMPDIR if set, else /tmp; "" if that is no directory.
std::string TemporaryDirectory();

// Creates a directory of this machine and its missing parents with the umask's permissions, for a
// user's files and not for a run's own. Returns 0 or errno.
int CreateSharedDirectories(absl::string_view path);

// The target of a write to a path that a user named: absolute, with links followed, so that the
// user's link stays a link. kInvalidArgument if it exists and is no regular file (a device, a pipe,
// a broken link), so that it is not replaced.
absl::StatusOr<std::string> ResolveForWriting(FileSystem& files, absl::string_view path);

// Writes `content` atomically: after a crash at any moment `path` has its old content or the new
// one. Writes to a temporary name in the same directory, then fdatasync, rename, fsync of the
// directory. A symbolic link at `path` is replaced, not followed. On failure *taken says whether
// the disk holds all of `content`; if not, `path` is unchanged.
absl::Status WriteFileAtomically(FileSystem& files, absl::string_view path,
                                 absl::string_view content,
                                 FileAccess access = FileAccess::kPrivate, bool* taken = nullptr);
absl::Status WriteFileAtomically(absl::string_view path, absl::string_view content,
                                 FileAccess access = FileAccess::kPrivate);

// Removes temporary files that a killed WriteFileAtomically left in the directory. REQUIRES: no
// other process writes there.
absl::Status RemoveAtomicWriteLeftovers(FileSystem& files, absl::string_view directory);

}  // namespace spillway
