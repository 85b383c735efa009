// The I/O engine without io_uring: a bounded pool of threads that call pread and pwrite.
#pragma once

#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "io/base/mutex.h"
#include "io/block_engine.h"

namespace spillway {

class ThreadEngine final : public BlockEngine {
 public:
  // Fails if the system refuses threads. `features`: the reason why io_uring was refused, if
  // threads replace it.
  static absl::StatusOr<std::unique_ptr<ThreadEngine>> Create(const IoEngineOptions& options,
                                                              IoFeatures features = {});
  ~ThreadEngine() override;

  void Wake() override;
  absl::string_view name() const override { return "threads"; }
  IoFeatures features() const override { return features_; }

 private:
  ThreadEngine(const IoEngineOptions& options, IoFeatures features)
      : BlockEngine(options), features_(std::move(features)) {}

  void Start(IoBlock* block) override;
  void Flush() override;
  bool Exchange(absl::Duration wait) override;
  void Work();

  const IoFeatures features_;
  Mutex mutex_;
  CondVar work_;  // wakes the pool: to_do_ is not empty, or the engine ends
  CondVar news_;  // wakes the owner: finished_ is not empty, or Wake was called
  // Each holds at most `depth` blocks: the queue gives no more.
  std::vector<IoBlock*> started_;  // the owner's, until Flush
  std::deque<IoBlock*> to_do_ ABSL_GUARDED_BY(mutex_);
  uint32_t idle_threads_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::pair<IoBlock*, int64_t>> finished_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;
};

}  // namespace spillway
