#include "engine/tuning/null_disk.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "io/base/mutex.h"

namespace spillway {
namespace {

class ZeroFile final : public File {
 public:
  explicit ZeroFile(absl::string_view path) : File(-1, std::string(path), true, 4096) {}
  absl::Status Preallocate(uint64_t) override { return absl::OkStatus(); }
  absl::StatusOr<uint64_t> SizeBytes() const override { return uint64_t{1} << 50; }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::Status ReadAt(uint64_t, char*, uint64_t) const override { return absl::OkStatus(); }
  absl::Status WriteAt(uint64_t, const char*, uint64_t) override { return absl::OkStatus(); }
};

}  // namespace

class NullDisk::Engine final : public IoEngine {
 public:
  explicit Engine(NullDisk* disk) : disk_(disk) {}

  void Submit(IoRequest* request) override { submitted_.push_back(request); }
  size_t Poll(absl::Duration timeout) override {
    if (!disk_->owned_) {
      pthread_getcpuclockid(pthread_self(), &disk_->owner_clock_);
      disk_->owned_ = true;
    }
    if (submitted_.empty()) {
      MutexLock lock(mutex_);
      const auto deadline = std::chrono::steady_clock::now() +
                            absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(1)));
      while (!woken_ && news_.WaitUntil(mutex_, deadline)) {
      }
      woken_ = false;
      return 0;
    }
    IoRequest* const request = submitted_.front();
    submitted_.pop_front();
    disk_->moved_bytes_ += request->size_bytes;
    request->done(*request, absl::OkStatus());
    return 1;
  }
  void Wake() override {
    MutexLock lock(mutex_);
    woken_ = true;
    news_.NotifyOne();
  }
  size_t pending() const override { return submitted_.size(); }
  absl::string_view name() const override { return "null"; }
  IoStats stats() const override { return {}; }

 private:
  NullDisk* const disk_;
  std::deque<IoRequest*> submitted_;
  Mutex mutex_;
  CondVar news_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

double NullDisk::owner_seconds() const {
  timespec time = {};
  if (owned_) clock_gettime(owner_clock_, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

absl::StatusOr<std::unique_ptr<File>> NullDisk::Open(absl::string_view path, const FileOptions&) {
  return std::make_unique<ZeroFile>(path);
}

absl::StatusOr<std::unique_ptr<IoEngine>> NullDisk::CreateEngine(const IoEngineOptions&) {
  return std::make_unique<Engine>(this);
}

absl::StatusOr<std::string> NullDisk::ReadSmallFile(absl::string_view path, uint64_t) {
  return absl::NotFoundError(path);
}

absl::StatusOr<std::unique_ptr<NewFile>> NullDisk::Create(absl::string_view path, FileAccess) {
  return absl::UnimplementedError(path);
}

absl::StatusOr<std::unique_ptr<OwnDirectory>> NullDisk::OpenOwn(absl::string_view path,
                                                                DirectoryUse) {
  return absl::UnimplementedError(path);
}

absl::StatusOr<FileInfo> NullDisk::Stat(absl::string_view path, SymbolicLink) {
  return absl::NotFoundError(path);
}

}  // namespace spillway
