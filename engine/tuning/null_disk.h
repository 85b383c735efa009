// A disk of zeros that completes at once: what swapping costs without one.
//
// Every plane, gradient and buffer of a run on it stays zero where the arithmetic leaves zeros as
// they are, so that nothing has to be moved, and every checksum is right all the same. The mover is
// woken for every transfer by itself, as often as any disk can.
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

// Of one engine, which it outlives. Nothing can be committed there.
class NullDisk final : public FileSystem {
 public:
  // Any thread: of all requests that have completed.
  uint64_t moved_bytes() const { return moved_bytes_; }
  // Of a processor, that the engine's owner (the mover) has had since its start, on whichever
  // thread it is. Any thread, while that one is there; 0 before its first Poll.
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
