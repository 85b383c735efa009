// The machine's own file system, of which a test overrides what it looks at.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/file_system.h"
#include "io/io_engine.h"

namespace spillway {

class ForwardingFileSystem : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<File>> Open(absl::string_view path,
                                             const FileOptions& options) override {
    return Real().Open(path, options);
  }
  absl::StatusOr<std::unique_ptr<IoEngine>> CreateEngine(const IoEngineOptions& options) override {
    return Real().CreateEngine(options);
  }
  bool may_start_threads() const override { return Real().may_start_threads(); }
  absl::StatusOr<std::string> ReadSmallFile(absl::string_view path, uint64_t limit_bytes) override {
    return Real().ReadSmallFile(path, limit_bytes);
  }
  absl::StatusOr<std::unique_ptr<NewFile>> Create(absl::string_view path,
                                                  FileAccess access) override {
    return Real().Create(path, access);
  }
  absl::Status Rename(absl::string_view from, absl::string_view to) override {
    return Real().Rename(from, to);
  }
  absl::Status Remove(absl::string_view path) override { return Real().Remove(path); }
  absl::Status CreateDirectory(absl::string_view path, FileAccess access) override {
    return Real().CreateDirectory(path, access);
  }
  absl::Status RemoveDirectory(absl::string_view path) override {
    return Real().RemoveDirectory(path);
  }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view path) override {
    return Real().List(path);
  }
  absl::StatusOr<FileInfo> Stat(absl::string_view path, SymbolicLink symbolic_link) override {
    return Real().Stat(path, symbolic_link);
  }
  std::string Resolve(absl::string_view path) override { return Real().Resolve(path); }
  absl::Status SyncDirectory(absl::string_view path) override { return Real().SyncDirectory(path); }
  absl::StatusOr<std::unique_ptr<OwnDirectory>> OpenOwn(absl::string_view path,
                                                        DirectoryUse use) override {
    return Real().OpenOwn(path, use);
  }
  absl::StatusOr<uint64_t> FreeBytes(absl::string_view path) override {
    return Real().FreeBytes(path);
  }
  bool MayWriteIn(absl::string_view path) override { return Real().MayWriteIn(path); }
  void Pause(absl::Duration time) override { Real().Pause(time); }
  absl::StatusOr<uint64_t> RandomNumber() override { return Real().RandomNumber(); }
};

// Says what is made durable, as it is.
class SyncWatcher final : public ForwardingFileSystem {
 public:
  // Before the directory is synced.
  std::function<void(const std::string& directory)> on_sync;

  absl::Status SyncDirectory(absl::string_view path) override {
    if (on_sync) on_sync(std::string(path));
    return Real().SyncDirectory(path);
  }
};

}  // namespace spillway
