// An I/O engine whose storage is moody: it returns blocks in any order, cuts
// them short and interrupts them, from a seed. What sits above must not notice.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "io/base/mutex.h"
#include "io/block_engine.h"

namespace spillway {

class FaultyEngine final : public BlockEngine {
 public:
  static absl::StatusOr<std::unique_ptr<FaultyEngine>> Create(const IoEngineOptions& options) {
    return std::unique_ptr<FaultyEngine>(new FaultyEngine(options));
  }

  void Wake() override {
    MutexLock lock(mutex_);
    woken_ = true;
    news_.NotifyOne();
  }
  absl::string_view name() const override { return "faulty"; }

  int short_transfers() const { return short_transfers_; }
  int interruptions() const { return interruptions_; }

 private:
  explicit FaultyEngine(const IoEngineOptions& options) : BlockEngine(options) {}

  void Start(IoBlock* block) override { started_.push_back(block); }
  void Flush() override {}

  bool Exchange(absl::Duration wait) override {
    if (!started_.empty()) {
      std::shuffle(started_.begin(), started_.end(), random_);
      const size_t stay = random_() % started_.size();
      std::vector<IoBlock*> back(started_.begin() + static_cast<ptrdiff_t>(stay), started_.end());
      started_.resize(stay);
      for (IoBlock* block : back) queue().Returned(block, Transfer(*block));
    }
    MutexLock lock(mutex_);
    const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(wait);
    while (!queue().has_completed() && queue().in_flight() == 0 && queue().pending() == 0 &&
           !woken_ && wait > absl::ZeroDuration() && news_.WaitUntil(mutex_, deadline)) {
    }
    return std::exchange(woken_, false);
  }

  int64_t Transfer(const IoBlock& block) {
    uint64_t size_bytes = block.size_bytes;
    const uint64_t unit = block.request->file->alignment_bytes();
    switch (random_() % 8) {
      case 0:
        ++interruptions_;
        return -EINTR;
      case 1:
        ++interruptions_;
        return -EAGAIN;
      case 2:
      case 3:
        if (size_bytes > unit) {
          ++short_transfers_;
          size_bytes = (1 + random_() % (size_bytes / unit - 1)) * unit;
        }
        break;
      default:
        break;
    }
    const auto offset = static_cast<off_t>(block.offset_bytes);
    const ssize_t moved = block.op == IoOp::kRead
                              ? ::pread(block.fd, block.data, size_bytes, offset)
                              : ::pwrite(block.fd, block.data, size_bytes, offset);
    return moved < 0 ? -errno : moved;
  }

  std::mt19937_64 random_{1};
  std::vector<IoBlock*> started_;
  int short_transfers_ = 0;
  int interruptions_ = 0;

  Mutex mutex_;
  CondVar news_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace spillway
