// The one way from swap/ and engine/run/ to files: everything that a store or a run does to a
// disk goes through here, so that a test can put a disk of its own beneath it (tests/sim). What
// must not be swapped under a run's hands, its own directories and their locks, stays open
// meanwhile (io/own_directory.h). std::filesystem, and the calls that rename and remove, stand in
// io/ alone.
//
// The primitives of an atomic write are apart on purpose: WriteFileAtomically is
// put together from them, and a simulated disk sees which of them were left out.
// Paths are absolute. Any thread.
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

// A small new file that is being written, buffered. One thread. The destructor
// closes without a word.
class NewFile {
 public:
  virtual ~NewFile() = default;
  virtual absl::Status Append(absl::string_view content) = 0;
  // fdatasync; see File::Sync.
  virtual absl::Status Sync() = 0;
  // Network filesystems report a full disk only here. Called once, and last.
  virtual absl::Status Close() = 0;
};

// What a path names.
struct FileInfo {
  enum class Kind { kFile, kDirectory, kOther };
  Kind kind = Kind::kOther;
  uint32_t user = 0;             // who owns it
  uint64_t size_bytes = 0;       // of a file
  uint64_t allocated_bytes = 0;  // on the drive
  int64_t modified_ns = 0;       // when its contents were last written, since 1970
  // Of device and inode: equal where two paths name the same thing.
  std::pair<uint64_t, uint64_t> identity;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // The machine's own. Lives for ever.
  static FileSystem& Real();

  // As File::Open.
  virtual absl::StatusOr<std::unique_ptr<File>> Open(absl::string_view path,
                                                     const FileOptions& options) = 0;
  // An engine that moves bytes of this file system's files. As CreateIoEngine.
  virtual absl::StatusOr<std::unique_ptr<IoEngine>> CreateEngine(
      const IoEngineOptions& options) = 0;
  // Whether who moves its bytes may have threads of his own beside it. Not where all that happens
  // has to happen in the same order again, as on the simulated disk of tests/sim.
  virtual bool may_start_threads() const { return true; }
  // As spillway::ReadSmallFile; a link in the last component is followed.
  virtual absl::StatusOr<std::string> ReadSmallFile(absl::string_view path,
                                                    uint64_t limit_bytes = kSmallFileBytes) = 0;

  // Creates a file that must not exist, no link followed.
  virtual absl::StatusOr<std::unique_ptr<NewFile>> Create(absl::string_view path,
                                                          FileAccess access) = 0;
  // Over a file that is there.
  virtual absl::Status Rename(absl::string_view from, absl::string_view to) = 0;
  // kNotFound when there is none.
  virtual absl::Status Remove(absl::string_view path) = 0;
  // fsync: creations, renames and removals in it are durable from then on.
  virtual absl::Status SyncDirectory(absl::string_view path) = 0;

  // For names that nobody else takes.
  virtual absl::StatusOr<uint64_t> RandomNumber() = 0;

  // kAlreadyExists where the name is taken, by whatever it is.
  virtual absl::Status CreateDirectory(absl::string_view path, FileAccess access) = 0;
  // kNotFound when there is none; an error where anything is in it.
  virtual absl::Status RemoveDirectory(absl::string_view path) = 0;
  // The names in a directory, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(absl::string_view path) = 0;
  // kNotFound when there is nothing. kRefuse: of a link itself, which is kOther.
  virtual absl::StatusOr<FileInfo> Look(absl::string_view path,
                                        SymbolicLink symbolic_link = SymbolicLink::kRefuse) = 0;
  // Absolute, without links and dots as far as the path exists.
  virtual std::string Resolve(absl::string_view path) = 0;

  // As OpenOwnDirectory.
  virtual absl::StatusOr<std::unique_ptr<OwnDirectory>> OpenOwn(absl::string_view path,
                                                                DirectoryUse use) = 0;
  // What an unprivileged user may still write to the file system of `path`.
  virtual absl::StatusOr<uint64_t> FreeBytes(absl::string_view path) = 0;
  // Whether this user may make files in the directory.
  virtual bool MayWriteIn(absl::string_view path) = 0;
  // Lets other processes go on, whose files are waited for.
  virtual void Pause(absl::Duration time) = 0;
};

// Makes the creation of `path` durable. A directory above it that may not be read, or cannot be
// synced (one of a read-only image), is passed over: what is in it is as good, only less durable in
// its first seconds.
absl::Status SyncIntoParent(FileSystem& files, absl::string_view path);

// The directory and the parents that it lacks: each level, and the first that was there already, is
// synced into its parent. Puts the levels that were made before those of `created`: deepest first.
absl::Status CreateDirectories(FileSystem& files, absl::string_view path, FileAccess access,
                               std::vector<std::string>* created = nullptr);

// A file that is written in place, buffered and so at any offset; created where there is none.
absl::StatusOr<std::unique_ptr<File>> OpenInPlace(FileSystem& files, absl::string_view path,
                                                  FileAccess access);

// OK also where there is none.
absl::Status RemoveIfThere(FileSystem& files, absl::string_view path);

// Whether anything is there, or a directory, links followed. False where that cannot be told.
bool Exists(absl::string_view path, FileSystem& files = FileSystem::Real());
bool IsDirectory(absl::string_view path, FileSystem& files = FileSystem::Real());
// Whether both name the same file or directory, links followed.
bool SameFile(absl::string_view a, absl::string_view b, FileSystem& files = FileSystem::Real());

// "/a" of "/a/b", "/" of "/a", "." of "a"; and "b" of "/a/b".
std::string ParentPath(absl::string_view path);
std::string FileName(absl::string_view path);

// By its letters alone: without ".", "..", doubled slashes and a slash at the end.
std::string NormalPath(absl::string_view path);
// What leads from `directory` to `path`, by the letters of both.
std::string RelativePath(absl::string_view path, absl::string_view directory);
// From the working directory, as it is written.
absl::StatusOr<std::string> AbsolutePath(absl::string_view path);
// Absolute, without links and dots, of what is there on this machine. An error begins with `what`.
absl::StatusOr<std::string> CanonicalPath(absl::string_view path, absl::string_view what);
// What the environment names for temporary files (TMPDIR), or /tmp; "" where that is no directory.
std::string TemporaryDirectory();

// The directory and the parents that it lacks, as the umask allows: of this machine's user, who
// may share it, and no run's own. 0, or what errno says.
int CreateSharedDirectories(absl::string_view path);

// Where a file that a user named is written: absolute, with links followed, so that his link stays
// one. kInvalidArgument where there is something that is no regular file (a device, a pipe, a link
// that leads nowhere): it is not replaced by one.
absl::StatusOr<std::string> ResolveForWriting(FileSystem& files, absl::string_view path);

// Writes `content` so that after a crash at any moment `path` holds either its old content or the
// new one: temporary name in the same directory, fdatasync, rename, fsync of the directory. A
// symbolic link at `path` is replaced, not followed. On failure *taken says whether the disk has
// taken all of `content`; if not, `path` is as it was.
absl::Status WriteFileAtomically(FileSystem& files, absl::string_view path,
                                 absl::string_view content,
                                 FileAccess access = FileAccess::kPrivate, bool* taken = nullptr);
absl::Status WriteFileAtomically(absl::string_view path, absl::string_view content,
                                 FileAccess access = FileAccess::kPrivate);

// Removes what WriteFileAtomically left in the directory when its process died in the middle.
// REQUIRES: nobody else writes there.
absl::Status RemoveAtomicWriteLeftovers(FileSystem& files, absl::string_view directory);

}  // namespace spillway
