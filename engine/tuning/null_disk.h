// A disk of zeros that completes at once: it shows the cost of swapping without a disk.
//
// All planes, gradients and buffers of a run on it stay zero if the arithmetic maps zeros to zeros,
// so no bytes are moved and every checksum is still right. The mover is woken for each transfer
// separately, as often as by any disk.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/file_system.h"
#include "io/io_engine.h"

namespace spillway {

// The disk of one engine, which it outlives. Commits are not possible there.
class NullDisk final : public FileSystem {
 public:
  // Bytes of all completed requests. Any thread.
  uint64_t moved_bytes() const { return moved_bytes_; }
  // Processor seconds of the engine's owner (the mover) since its start, on whichever thread it
  // runs. Any thread, while the owner exists; 0 before its first Poll.
  double owner_seconds() const;

  absl::StatusOr<std::unique_ptr<File>> Open(absl::string_view path, const FileOptions&) override;
  absl::StatusOr<std::unique_ptr<IoEngine>> CreateEngine(const IoEngineOptions&) override;
  absl::StatusOr<std::string> ReadSmallFile(absl::string_view path, uint64_t) override;
  absl::StatusOr<std::unique_ptr<NewFile>> Create(absl::string_view, FileAccess) override;
  absl::Status Rename(absl::string_view, absl::string_view) override { return absl::OkStatus(); }
  absl::Status Remove(absl::string_view) override { return absl::OkStatus(); }
  absl::Status SyncDirectory(absl::string_view) override { return absl::OkStatus(); }
  absl::StatusOr<uint64_t> RandomNumber() override { return uint64_t{1}; }
  absl::Status CreateDirectory(absl::string_view, FileAccess) override { return absl::OkStatus(); }
  absl::Status RemoveDirectory(absl::string_view) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view) override {
    return std::vector<std::string>();
  }
  absl::StatusOr<FileInfo> Stat(absl::string_view path, SymbolicLink) override;
  std::string Resolve(absl::string_view path) override { return std::string(path); }
  absl::StatusOr<std::unique_ptr<OwnDirectory>> OpenOwn(absl::string_view path,
                                                        DirectoryUse) override;
  absl::StatusOr<uint64_t> FreeBytes(absl::string_view) override { return uint64_t{1} << 60; }
  bool MayWriteIn(absl::string_view) override { return true; }
  void Pause(absl::Duration) override {}

 private:
  class Engine;

  std::atomic<uint64_t> moved_bytes_{0};
  std::atomic<bool> owned_{false};
  clockid_t owner_clock_ = 0;  // REQUIRES: owned_
};

}  // namespace spillway
