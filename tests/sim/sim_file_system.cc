#include "tests/sim/sim_file_system.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "io/block_engine.h"

namespace spillway {
namespace {

// No call of the machine's own takes these for one of its files.
constexpr int kNoDescriptor = -1;

constexpr uint64_t kPauseTicks = 100;

// fdatasync of either kind of file.
absl::Status SyncInode(SimDisk& disk, SimInode& inode, const std::string& path) {
  if (!disk.BeforeCall()) return ErrnoStatus(EIO, absl::StrCat("sync ", path));
  disk.world().Trace("sync", inode.number);
  if (disk.faults().Strikes(SimFault::kSyncError)) {
    disk.SyncFalsely(inode);
    return ErrnoStatus(EIO, absl::StrCat("sync ", path));
  }
  disk.Sync(inode);
  return disk.AfterCall() ? absl::OkStatus() : ErrnoStatus(EIO, absl::StrCat("sync ", path));
}

class SimFile final : public File {
 public:
  SimFile(SimDisk& disk, std::shared_ptr<SimInode> inode, std::string path,
          const FileOptions& options)
      : File(kNoDescriptor, std::move(path), options.direct && disk.alignment_bytes() > 1,
             options.direct ? disk.alignment_bytes() : 1),
        disk_(disk),
        inode_(std::move(inode)),
        write_(options.write),
        buffered_(!options.direct) {
    ++disk_.open_handles;
  }
  ~SimFile() override { --disk_.open_handles; }

  absl::Status Preallocate(uint64_t size_bytes) override {
    SPILLWAY_CHECK(write_);
    const std::string what = absl::StrCat("reserve ", size_bytes, " bytes for ", path());
    if (!disk_.BeforeCall()) return ErrnoStatus(EIO, what);
    disk_.world().Trace("reserve", inode_->number, size_bytes);
    if (disk_.faults().Strikes(SimFault::kReserveNoSpace)) return ErrnoStatus(ENOSPC, what);
    disk_.SetSize(*inode_, size_bytes);
    return disk_.AfterCall() ? absl::OkStatus() : ErrnoStatus(EIO, what);
  }

  absl::StatusOr<uint64_t> SizeBytes() const override { return inode_->data.size(); }

  absl::Status Sync() override { return SyncInode(disk_, *inode_, path()); }

  absl::Status ReadAt(uint64_t offset_bytes, char* data, uint64_t size_bytes) const override {
    return MoveAll(false, offset_bytes, data, size_bytes);
  }

  absl::Status WriteAt(uint64_t offset_bytes, const char* data, uint64_t size_bytes) override {
    return MoveAll(true, offset_bytes, const_cast<char*>(data), size_bytes);
  }

  SimInode* inode() const { return inode_.get(); }
  bool write() const { return write_; }

 private:
  absl::Status MoveAll(bool write, uint64_t offset_bytes, char* data, uint64_t size_bytes) const {
    SPILLWAY_CHECK(write_ || !write);
    if (buffered_) return MoveBuffered(write, offset_bytes, data, size_bytes);
    uint64_t done_bytes = 0;
    while (done_bytes < size_bytes) {
      const SimDisk::Transfer transfer = {.write = write,
                                          .inode = inode_.get(),
                                          .offset_bytes = offset_bytes + done_bytes,
                                          .data = data + done_bytes,
                                          .size_bytes = size_bytes - done_bytes,
                                          .process = disk_.world().process()};
      disk_.BeginTransfer(&transfer);
      const int64_t moved = disk_.EndTransfer(&transfer);
      if (moved == -EINTR || moved == -EAGAIN) continue;
      if (moved <= 0) {
        return ErrnoStatus(moved < 0 ? static_cast<int>(-moved) : EIO,
                           absl::StrCat(write ? "write " : "read ", size_bytes, " bytes at ",
                                        offset_bytes, " of ", path()));
      }
      // As in a RealFile, from an aligned place.
      done_bytes += static_cast<uint64_t>(moved) / alignment_bytes() * alignment_bytes();
    }
    return absl::OkStatus();
  }

  // Through the page cache, at any offset.
  absl::Status MoveBuffered(bool write, uint64_t offset_bytes, char* data,
                            uint64_t size_bytes) const {
    const std::string what = absl::StrCat(write ? "write " : "read ", size_bytes, " bytes at ",
                                          offset_bytes, " of ", path());
    if (!disk_.BeforeCall()) return ErrnoStatus(EIO, what);
    if (write) {
      disk_.Write(*inode_, offset_bytes, data, size_bytes);
    } else {
      if (offset_bytes + size_bytes > inode_->data.size()) return ErrnoStatus(EIO, what);
      std::copy_n(inode_->data.data() + offset_bytes, size_bytes, data);
    }
    return disk_.AfterCall() ? absl::OkStatus() : ErrnoStatus(EIO, what);
  }

  SimDisk& disk_;
  const std::shared_ptr<SimInode> inode_;
  const bool write_;
  const bool buffered_;
};

class SimNewFile final : public NewFile {
 public:
  SimNewFile(SimDisk& disk, std::shared_ptr<SimInode> inode, std::string path)
      : disk_(disk), inode_(std::move(inode)), path_(std::move(path)) {
    ++disk_.open_handles;
  }
  ~SimNewFile() override { --disk_.open_handles; }

  absl::Status Append(absl::string_view content) override {
    const std::string what = absl::StrCat("write ", content.size(), " bytes to ", path_);
    if (!disk_.BeforeCall()) return ErrnoStatus(EIO, what);
    disk_.world().Trace("append", inode_->number, content.size());
    const bool full = disk_.faults().Strikes(SimFault::kAppendNoSpace);
    disk_.Append(*inode_, full ? content.substr(0, content.size() / 2) : content);
    if (full) return ErrnoStatus(ENOSPC, what);
    return disk_.AfterCall() ? absl::OkStatus() : ErrnoStatus(EIO, what);
  }

  absl::Status Sync() override { return SyncInode(disk_, *inode_, path_); }

  absl::Status Close() override {
    if (disk_.crashed()) return ErrnoStatus(EIO, absl::StrCat("close ", path_));
    return absl::OkStatus();
  }

 private:
  SimDisk& disk_;
  const std::shared_ptr<SimInode> inode_;
  const std::string path_;
};

class SimEngine final : public BlockEngine {
 public:
  SimEngine(SimDisk& disk, const IoEngineOptions& options) : BlockEngine(options), disk_(disk) {}
  ~SimEngine() override { SPILLWAY_CHECK(in_flight_ == 0); }

  void Wake() override {
    woken_ = true;
    disk_.world().NoteWoken();
  }
  absl::string_view name() const override { return "simulated"; }

 private:
  void Start(IoBlock* block) override {
    const auto* file = static_cast<const SimFile*>(block->request->file);
    SPILLWAY_CHECK(block->op == IoOp::kRead || file->write());
    auto transfer = std::make_shared<SimDisk::Transfer>();
    transfer->write = block->op == IoOp::kWrite;
    transfer->inode = file->inode();
    transfer->offset_bytes = block->offset_bytes;
    transfer->data = block->data;
    transfer->size_bytes = block->size_bytes;
    transfer->retries = block->retries;
    transfer->process = disk_.world().process();
    ++in_flight_;
    disk_.BeginTransfer(transfer.get());
    disk_.world().After(disk_.TransferLatency(*transfer->inode), [this, block, transfer] {
      back_.emplace_back(block, disk_.EndTransfer(transfer.get()));
    });
  }

  void Flush() override {}

  bool Exchange(absl::Duration wait) override {
    if (back_.empty() && !woken_ && wait > absl::ZeroDuration()) {
      if (!disk_.world().AwaitEngine([this] { return woken_ || !back_.empty(); })) {
        // A real engine waits its time out here; a second of that is a stall.
        disk_.world().NoteWaitingForNothing();
        woken_ = true;
      }
    }
    for (const auto& [block, result] : std::exchange(back_, {})) {
      --in_flight_;
      queue().Returned(block, result);
    }
    return std::exchange(woken_, false);
  }

  SimDisk& disk_;
  std::vector<std::pair<IoBlock*, int64_t>> back_;
  int in_flight_ = 0;
  bool woken_ = false;
};

class SimLockFile final : public LockFile {
 public:
  SimLockFile(SimDisk& disk, std::shared_ptr<SimInode> inode, std::string path)
      : disk_(disk), inode_(std::move(inode)), path_(std::move(path)) {
    ++disk_.open_handles;
  }
  ~SimLockFile() override {
    if (inode_->lock == this) inode_->lock = nullptr;
    --disk_.open_handles;
  }

  absl::StatusOr<bool> TryLock(LockKind) override {
    if (!disk_.BeforeCall()) return ErrnoStatus(EIO, absl::StrCat("lock ", path_));
    if (inode_->lock == nullptr) inode_->lock = this;
    return inode_->lock == this;
  }

  absl::StatusOr<bool> IsNamed() const override {
    if (!disk_.BeforeCall()) return ErrnoStatus(EIO, absl::StrCat("look at ", path_));
    return disk_.Find(path_) == inode_;
  }

  absl::Status Write(absl::string_view text) override {
    const std::string what = absl::StrCat("write ", path_);
    if (!disk_.BeforeCall()) return ErrnoStatus(EIO, what);
    disk_.SetSize(*inode_, text.size());
    disk_.Write(*inode_, 0, text.data(), text.size());
    return disk_.AfterCall() ? absl::OkStatus() : ErrnoStatus(EIO, what);
  }

 private:
  SimDisk& disk_;
  const std::shared_ptr<SimInode> inode_;
  const std::string path_;
};

// Of a directory that has lost its name nothing can be had any more.
class SimOwnDirectory final : public OwnDirectory {
 public:
  SimOwnDirectory(SimDisk& disk, SimFileSystem& files, std::shared_ptr<SimInode> inode,
                  std::string path)
      : OwnDirectory(std::move(path)), disk_(disk), files_(files), inode_(std::move(inode)) {
    ++disk_.open_handles;
  }
  ~SimOwnDirectory() override { --disk_.open_handles; }

  absl::StatusOr<std::vector<DirectoryEntry>> List() const override {
    if (!disk_.BeforeCall()) return ErrnoStatus(EIO, absl::StrCat("list ", path()));
    std::vector<DirectoryEntry> entries;
    if (!IsStillNamed()) return entries;
    for (const std::string& name : disk_.NamesIn(path())) {
      const std::shared_ptr<SimInode> inode = disk_.Find(PathOf(name));
      DirectoryEntry entry;
      entry.name = name;
      entry.is_directory = inode->directory;
      entry.is_file = !inode->directory;
      entry.user = ::geteuid();
      entry.allocated_bytes = inode->data.size();
      entries.push_back(std::move(entry));
    }
    return entries;
  }

  absl::StatusOr<std::string> ReadFile(const std::string& name, size_t most_bytes) const override {
    if (!IsStillNamed()) return Gone();
    ASSIGN_OR_RETURN(const std::string content, files_.ReadSmallFile(PathOf(name)));
    return content.substr(0, most_bytes);
  }

  absl::StatusOr<std::unique_ptr<OwnDirectory>> OpenDirectory(
      const std::string& name) const override {
    if (!IsStillNamed()) return Gone();
    return files_.OpenOwn(PathOf(name), DirectoryUse::kLook);
  }

  absl::StatusOr<std::unique_ptr<LockFile>> OpenLock(const std::string& name,
                                                     bool create) const override {
    const std::string what = absl::StrCat("open ", PathOf(name));
    if (!disk_.BeforeCall()) return ErrnoStatus(EIO, what);
    if (!IsStillNamed()) return Gone();
    std::shared_ptr<SimInode> inode = disk_.Find(PathOf(name));
    if (inode == nullptr && !create) return ErrnoStatus(ENOENT, what);
    if (inode == nullptr) inode = disk_.Create(PathOf(name));
    if (!disk_.AfterCall()) return ErrnoStatus(EIO, what);
    return std::make_unique<SimLockFile>(disk_, std::move(inode), PathOf(name));
  }

  absl::Status CreateDirectory(const std::string& name) const override {
    return IsStillNamed() ? files_.CreateDirectory(PathOf(name), FileAccess::kPrivate) : Gone();
  }

  absl::Status Remove(const std::string& name) const override {
    return IsStillNamed() ? files_.Remove(PathOf(name)) : Gone();
  }

  absl::Status RemoveDirectory(const std::string& name) const override {
    return IsStillNamed() ? files_.RemoveDirectory(PathOf(name)) : Gone();
  }

  absl::Status Sync() const override {
    return IsStillNamed() ? files_.SyncDirectory(path()) : absl::OkStatus();
  }

  bool IsStillNamed() const override { return disk_.Find(path()) == inode_; }
  bool IsRemoved() const override { return !IsStillNamed(); }  // no directory is renamed there

 private:
  std::string PathOf(const std::string& name) const { return absl::StrCat(path(), "/", name); }
  absl::Status Gone() const { return ErrnoStatus(ENOENT, absl::StrCat("look into ", path())); }

  SimDisk& disk_;
  SimFileSystem& files_;
  const std::shared_ptr<SimInode> inode_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<File>> SimFileSystem::Open(absl::string_view path,
                                                          const FileOptions& options) {
  const std::string what = absl::StrCat(options.create ? "create " : "open ", path);
  if (!disk_.BeforeCall()) return ErrnoStatus(EIO, what);
  std::shared_ptr<SimInode> inode = disk_.Find(path);
  if (options.create) {
    if (inode != nullptr) return ErrnoStatus(EEXIST, what);
    if (!disk_.ParentIsThere(path)) return ErrnoStatus(ENOENT, what);
    if (disk_.faults().Strikes(SimFault::kCreateError)) return ErrnoStatus(ENOSPC, what);
    inode = disk_.Create(path);
  } else {
    if (disk_.faults().Strikes(SimFault::kOpenError)) return ErrnoStatus(EIO, what);
    if (inode == nullptr) return ErrnoStatus(ENOENT, what);
    if (inode->directory) return ErrnoStatus(EISDIR, what);
  }
  disk_.world().Explain(what);
  disk_.world().Trace(options.create ? "create" : "open", inode->number);
  if (!disk_.AfterCall()) return ErrnoStatus(EIO, what);
  return std::make_unique<SimFile>(disk_, std::move(inode), std::string(path), options);
}

absl::StatusOr<std::unique_ptr<IoEngine>> SimFileSystem::CreateEngine(
    const IoEngineOptions& options) {
  // Who makes an engine goes on by itself, and not because another one's wait timed out.
  disk_.world().NoteWoken();
  return std::make_unique<SimEngine>(disk_, options);
}

absl::StatusOr<std::string> SimFileSystem::ReadSmallFile(absl::string_view path,
                                                         uint64_t limit_bytes) {
  const std::string what = absl::StrCat("read ", path);
  if (!disk_.BeforeCall()) return ErrnoStatus(EIO, what);
  const std::shared_ptr<SimInode> inode = disk_.Find(path);
  disk_.world().Trace("read small", inode == nullptr ? 0 : inode->number);
  if (disk_.faults().Strikes(SimFault::kReadSmallError)) return ErrnoStatus(EIO, what);
  if (inode == nullptr) return ErrnoStatus(ENOENT, absl::StrCat("open ", path));
  if (inode->data.size() > limit_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": larger than ", limit_bytes, " bytes"));
  }
  std::string content = disk_.ReadAll(path, *inode);
  if (!disk_.AfterCall()) return ErrnoStatus(EIO, what);
  return content;
}

absl::StatusOr<std::unique_ptr<NewFile>> SimFileSystem::Create(absl::string_view path, FileAccess) {
  const std::string what = absl::StrCat("create ", path);
  if (!disk_.BeforeCall()) return ErrnoStatus(EIO, what);
  disk_.world().Explain(what);
  if (disk_.Find(path) != nullptr) return ErrnoStatus(EEXIST, what);
  if (!disk_.ParentIsThere(path)) return ErrnoStatus(ENOENT, what);
  if (disk_.faults().Strikes(SimFault::kCreateError)) return ErrnoStatus(ENOSPC, what);
  const std::shared_ptr<SimInode> inode = disk_.Create(path);
  disk_.world().Trace("create", inode->number);
  if (!disk_.AfterCall()) return ErrnoStatus(EIO, what);
  return std::make_unique<SimNewFile>(disk_, inode, std::string(path));
}

absl::Status SimFileSystem::Rename(absl::string_view from, absl::string_view to) {
  const std::string what = absl::StrCat("rename ", from, " to ", to);
  if (!disk_.BeforeCall(to)) return ErrnoStatus(EIO, what);
  disk_.world().Explain(what);
  const std::shared_ptr<SimInode> inode = disk_.Find(from);
  if (inode == nullptr) return ErrnoStatus(ENOENT, what);
  disk_.world().Trace("rename", inode->number);
  if (disk_.faults().Strikes(SimFault::kRenameError)) return ErrnoStatus(EIO, what);
  disk_.Rename(from, to);
  return disk_.AfterCall(to) ? absl::OkStatus() : ErrnoStatus(EIO, what);
}

absl::Status SimFileSystem::Remove(absl::string_view path) {
  return RemoveName(path, /*directory=*/false);
}

absl::Status SimFileSystem::RemoveDirectory(absl::string_view path) {
  return RemoveName(path, /*directory=*/true);
}

absl::Status SimFileSystem::RemoveName(absl::string_view path, bool directory) {
  const std::string what = absl::StrCat("remove ", path);
  if (!disk_.BeforeCall()) return ErrnoStatus(EIO, what);
  const std::shared_ptr<SimInode> inode = disk_.Find(path);
  disk_.world().Explain(what);
  if (inode == nullptr) return ErrnoStatus(ENOENT, what);
  if (inode->directory != directory) return ErrnoStatus(directory ? ENOTDIR : EISDIR, what);
  if (directory && !disk_.NamesIn(path).empty()) return ErrnoStatus(ENOTEMPTY, what);
  disk_.world().Trace("remove", inode->number);
  disk_.SetName(path, nullptr);
  return disk_.AfterCall() ? absl::OkStatus() : ErrnoStatus(EIO, what);
}

absl::Status SimFileSystem::CreateDirectory(absl::string_view path, FileAccess) {
  const std::string what = absl::StrCat("create directory ", path);
  if (!disk_.BeforeCall()) return ErrnoStatus(EIO, what);
  disk_.world().Explain(what);
  if (disk_.Find(path) != nullptr) return ErrnoStatus(EEXIST, what);
  if (!disk_.ParentIsThere(path)) return ErrnoStatus(ENOENT, what);
  disk_.world().Trace("create directory", disk_.Create(path, /*directory=*/true)->number);
  return disk_.AfterCall() ? absl::OkStatus() : ErrnoStatus(EIO, what);
}

absl::StatusOr<std::vector<std::string>> SimFileSystem::List(absl::string_view path) {
  const std::string what = absl::StrCat("list ", path);
  if (!disk_.BeforeCall()) return ErrnoStatus(EIO, what);
  const std::shared_ptr<SimInode> inode = disk_.Find(path);
  if (inode == nullptr) return ErrnoStatus(ENOENT, what);
  if (!inode->directory) return ErrnoStatus(ENOTDIR, what);
  return disk_.NamesIn(path);
}

absl::StatusOr<FileInfo> SimFileSystem::Stat(absl::string_view path, SymbolicLink) {
  const std::string what = absl::StrCat("look at ", path);
  if (!disk_.BeforeCall()) return ErrnoStatus(EIO, what);
  FileInfo info;
  info.user = ::geteuid();
  info.kind = FileInfo::Kind::kDirectory;
  if (path == "/") return info;
  const std::shared_ptr<SimInode> inode = disk_.Find(path);
  if (inode == nullptr) return ErrnoStatus(ENOENT, what);
  info.identity = {1, inode->number};
  if (inode->directory) return info;
  info.kind = FileInfo::Kind::kFile;
  info.size_bytes = info.allocated_bytes = inode->data.size();
  return info;
}

absl::Status SimFileSystem::SyncDirectory(absl::string_view path) {
  const std::string what = absl::StrCat("sync directory ", path);
  if (!disk_.BeforeCall(path)) return ErrnoStatus(EIO, what);
  disk_.world().Explain(what);
  disk_.world().Trace("sync directory");
  if (disk_.faults().Strikes(SimFault::kDirectorySync)) return ErrnoStatus(EIO, what);
  disk_.SyncDirectory(path);
  return disk_.AfterCall(path) ? absl::OkStatus() : ErrnoStatus(EIO, what);
}

absl::StatusOr<std::unique_ptr<OwnDirectory>> SimFileSystem::OpenOwn(absl::string_view path,
                                                                     DirectoryUse) {
  const std::string what = absl::StrCat("open directory ", path);
  if (!disk_.BeforeCall()) return ErrnoStatus(EIO, what);
  const std::shared_ptr<SimInode> inode = disk_.Find(path);
  if (inode == nullptr) return ErrnoStatus(ENOENT, what);
  if (!inode->directory) return ErrnoStatus(ENOTDIR, what);
  return std::make_unique<SimOwnDirectory>(disk_, *this, inode, std::string(path));
}

absl::StatusOr<uint64_t> SimFileSystem::FreeBytes(absl::string_view) { return uint64_t{1} << 40; }

bool SimFileSystem::MayWriteIn(absl::string_view) { return true; }

void SimFileSystem::Pause(absl::Duration) { disk_.world().PassTime(kPauseTicks); }

absl::StatusOr<uint64_t> SimFileSystem::RandomNumber() { return disk_.world().random().Next(); }

}  // namespace spillway
