// The part that both I/O engines share: the choice of the next block, and the completion of a
// request when its blocks return.
//
// A request is cut into blocks; a block is one transfer that a backend starts
// and reports back with what the kernel said. Between the two the queue keeps
// the promises of io/io_engine.h: the order of classes, one queue depth over
// all requests, short transfers continued, EINTR and EAGAIN retried, the first
// error kept, `done` called exactly once and only when no block of the request
// is with the backend any more. It makes no system call and does not wait.
//
// Which block goes next:
// - the highest class that has one, except that none is passed over for ever;
// - inside the class, one of the file with the fewest bytes in flight, so that a
//   slow drive does not fill the queue that a fast one shares with it;
// - inside class and file, in order of arrival;
// - but while there are demand reads about, writes of the class kWriteBack only as long
//   as less than the write window of them is in flight to that file (reads of that class
//   pass them then): a demand read waits for the drive to take that much at most. While
//   one is waiting or in flight, no more than half of it. Without demand, writes have the
//   whole queue, which some drives need for their full rate.
//
// Owner thread only, except stats().
// Large because the choice of the next block and the fate of one depend on the same state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "io/base/clock.h"
#include "io/base/mutex.h"
#include "io/io_engine.h"

namespace spillway {

struct FileQueue;

// One transfer. It belongs to the backend from Next until Returned.
struct IoBlock {
  IoRequest* request = nullptr;
  IoOp op = IoOp::kRead;
  int fd = -1;
  // The part that is left to move: short transfers shrink it from the front.
  uint64_t offset_bytes = 0;
  char* data = nullptr;
  uint64_t size_bytes = 0;
  // Consecutive attempts without progress.
  uint32_t retries = 0;
  // Earliest time of the next attempt, by the queue's clock.
  int64_t again_ns = 0;

 private:
  friend class BlockQueue;
  FileQueue* queue = nullptr;
  uint64_t cut_bytes = 0;  // the initial size, which counts as in flight
};

class BlockQueue {
 public:
  // A waiting class is passed over this often before one of its blocks goes first: under endless
  // demand, write-back keeps 1/17 of the transfers, and the memory it holds comes free at last.
  static constexpr int kPassedOverLimit = 16;

  // The first retries follow at once; later ones wait, so that the kernel can recover. Other blocks
  // continue meanwhile.
  static constexpr uint32_t kEagerRetries = 16;
  static constexpr int64_t kRetryPauseNanoseconds = 1'000'000;

  // EINTR and EAGAIN pass in microseconds. A transfer without progress in so many tries (five
  // seconds, including pauses) is stuck, and an error is better than a run that hangs.
  static constexpr uint32_t kRetriesLimit = 5000;

  // The write window stays in force this long after the last demand request, so that the next one
  // is bounded, too.
  static constexpr int64_t kDemandRememberedNanoseconds = 10'000'000'000;

  using Clock = int64_t (*)();

  static constexpr uint64_t kNoWindow = ~uint64_t{0};

  // `write_window_bytes`: limit of kWriteBack writes in flight per file while there is demand; one
  // block is always allowed. `trace` may be null; its clock is the steady one.
  BlockQueue(uint64_t block_bytes, uint32_t depth, Clock clock = &MonotonicNanoseconds,
             uint64_t write_window_bytes = kNoWindow, Trace* trace = nullptr);
  ~BlockQueue();
  BlockQueue(const BlockQueue&) = delete;
  BlockQueue& operator=(const BlockQueue&) = delete;

  void Add(IoRequest* request);

  // The block to start now; null if none waits except for its pause, or `depth` are in flight.
  IoBlock* Next();

  // Time until a paused block may start; none if no block is paused.
  std::optional<int64_t> PauseNanoseconds() const;

  // Returns a block to the queue: `result` is the number of bytes moved, or -errno.
  void Returned(IoBlock* block, int64_t result);

  // Whether requests are complete whose `done` has not run.
  bool has_completed() const { return !completed_.empty(); }

  // Calls `done` for those, in order of completion; requests that complete meanwhile wait for the
  // next call. Returns how many ran.
  size_t RunCallbacks();

  size_t pending() const { return pending_; }
  uint32_t in_flight() const { return in_flight_; }
  IoStats stats() const;

 private:
  static constexpr int kClasses = 3;

  // The file to serve next, and the lane within it (block_queue.cc).
  struct Pick {
    FileQueue* queue = nullptr;
    int lane = 0;
  };

  FileQueue& QueueOf(const File* file);
  Pick PickFile(int io_class) const;
  int PickLane(const FileQueue& queue, int io_class) const;
  bool WindowIsOpen(const FileQueue& queue) const;
  uint64_t NextBlockBytes(const IoRequest& request) const;
  IoBlock* Cut(FileQueue& queue, int lane);
  IoBlock* Started(IoBlock* block);
  // False if the block has nothing left to do.
  bool Continue(IoBlock& block, int64_t result);
  void Fail(IoRequest& request, absl::Status status);
  void Release(IoBlock* block);
  void RecordSpan(const IoRequest& request) const;

  const uint64_t block_bytes_;
  const uint64_t write_window_bytes_;
  const Clock clock_;
  Trace* const trace_;

  // One slot for each block that may be in flight; free_ lists the idle ones.
  std::vector<IoBlock> slots_;
  std::vector<IoBlock*> free_;
  // Blocks to retry. They keep their slots and go first, after their pauses: requests that are
  // nearly complete depend on them.
  std::deque<IoBlock*> again_;

  // One for each file with blocks waiting or in flight; idle ones are reused, so there are never
  // more than the files in use at once.
  std::vector<std::unique_ptr<FileQueue>> files_;
  std::optional<int64_t> last_demand_;
  uint64_t arrivals_ = 0;
  uint64_t cuts_ = 0;
  std::array<int, kClasses> passed_over_ = {};

  std::deque<IoRequest*> completed_;
  size_t pending_ = 0;
  uint32_t in_flight_ = 0;
  uint64_t in_flight_bytes_ = 0;  // of blocks cut and not yet released

  mutable Mutex stats_mutex_;
  IoStats stats_ ABSL_GUARDED_BY(stats_mutex_);
  // Start time of the current busy period; 0 if no block is in flight.
  int64_t busy_since_ ABSL_GUARDED_BY(stats_mutex_) = 0;
};

}  // namespace spillway
