// The one way from swap/ to files: everything that a store does to a disk goes
// through here, so that a test can put a disk of its own beneath it (tests/sim).
//
// The primitives of an atomic write are apart on purpose: WriteFileAtomically is
// put together from them, and a simulated disk sees which of them were left out.
// Paths are absolute. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "io/file.h"

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
  // As spillway::ReadSmallFile; a link in the last component is followed.
  virtual absl::StatusOr<std::string> ReadSmallFile(absl::string_view path) = 0;

  // Creates a file that must not exist, mode 0600, no link followed.
  virtual absl::StatusOr<std::unique_ptr<NewFile>> Create(absl::string_view path) = 0;
  // Over a file that is there.
  virtual absl::Status Rename(absl::string_view from, absl::string_view to) = 0;
  // kNotFound when there is none.
  virtual absl::Status Remove(absl::string_view path) = 0;
  // fsync: creations, renames and removals in it are durable from then on.
  virtual absl::Status SyncDirectory(absl::string_view path) = 0;

  // For names that nobody else takes.
  virtual absl::StatusOr<uint64_t> RandomNumber() = 0;
};

// See io/file.h. On failure *taken says whether the disk has taken all of `content`; if not, `path`
// is as it was.
absl::Status WriteFileAtomically(FileSystem& files, absl::string_view path,
                                 absl::string_view content, bool* taken = nullptr);

}  // namespace spillway
