// The part of an I/O engine that all backends share: owner thread, order, waiting and callbacks. A
// backend starts blocks and reports them as returned.
#pragma once

#include <thread>

#include "io/base/clock.h"
#include "io/block_queue.h"
#include "io/io_engine.h"

namespace spillway {

class BlockEngine : public IoEngine {
 public:
  void Submit(IoRequest* request) final;
  size_t Poll(absl::Duration timeout) final;
  size_t pending() const final { return queue_.pending(); }
  IoStats stats() const final { return queue_.stats(); }

 protected:
  explicit BlockEngine(const IoEngineOptions& options)
      : queue_(options.block_bytes, options.depth, &MonotonicNanoseconds,
               options.write_window_bytes, options.trace) {}

  // Takes a block; may hold it back until Flush or Exchange.
  virtual void Start(IoBlock* block) = 0;

  // Submits all started blocks without waiting.
  virtual void Flush() = 0;

  // Flushes, then waits until a block has completed, Wake is called or `wait` (at most a day) has
  // passed; zero only polls. Passes every completed block to queue().Returned. Returns whether Wake
  // was called since the last call. May return early without a reason.
  virtual bool Exchange(absl::Duration wait) = 0;

  BlockQueue& queue() { return queue_; }
  const BlockQueue& queue() const { return queue_; }
  bool on_owner_thread() const { return owner_ == std::this_thread::get_id(); }

 private:
  void CheckOwner();
  void StartBlocks();

  BlockQueue queue_;
  std::thread::id owner_;
  bool polling_ = false;
};

}  // namespace spillway
