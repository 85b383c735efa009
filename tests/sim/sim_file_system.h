// The simulated disk as swap/ sees it: files, and an engine that moves their bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/file_system.h"
#include "tests/sim/sim_disk.h"

namespace spillway {

// One thread; the calls are those of the process whose fiber makes them. The engine is a
// BlockEngine: cutting requests into blocks, classes, short transfers and retries are the product's
// own code. Waiting for it lets the world go on.
class SimFileSystem final : public FileSystem {
 public:
  explicit SimFileSystem(SimDisk& disk) : disk_(disk) {}

  absl::StatusOr<std::unique_ptr<File>> Open(absl::string_view path,
                                             const FileOptions& options) override;
  absl::StatusOr<std::unique_ptr<IoEngine>> CreateEngine(const IoEngineOptions& options) override;
  bool may_start_threads() const override { return false; }
  absl::StatusOr<std::string> ReadSmallFile(absl::string_view path,
                                            uint64_t limit_bytes = kSmallFileBytes) override;
  absl::StatusOr<std::unique_ptr<NewFile>> Create(absl::string_view path,
                                                  FileAccess access) override;
  absl::Status Rename(absl::string_view from, absl::string_view to) override;
  absl::Status Remove(absl::string_view path) override;
  absl::Status CreateDirectory(absl::string_view path, FileAccess access) override;
  absl::Status RemoveDirectory(absl::string_view path) override;
  absl::StatusOr<std::vector<std::string>> List(absl::string_view path) override;
  absl::StatusOr<FileInfo> Stat(absl::string_view path, SymbolicLink symbolic_link) override;
  std::string Resolve(absl::string_view path) override { return std::string(path); }
  absl::Status SyncDirectory(absl::string_view path) override;
  absl::StatusOr<std::unique_ptr<OwnDirectory>> OpenOwn(absl::string_view path,
                                                        DirectoryUse use) override;
  absl::StatusOr<uint64_t> FreeBytes(absl::string_view path) override;
  bool MayWriteIn(absl::string_view path) override;
  void Pause(absl::Duration time) override;
  absl::StatusOr<uint64_t> RandomNumber() override;

 private:
  absl::Status RemoveName(absl::string_view path, bool directory);

  SimDisk& disk_;
};

}  // namespace spillway
