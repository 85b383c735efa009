// What both I/O engines do alike: which block goes next, and what becomes of
// a request when its blocks come back.
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
// Large because which block goes next, and what becomes of one, hang on the same books.
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
  // What is left to move: short transfers shrink it from the front.
  uint64_t offset_bytes = 0;
  char* data = nullptr;
  uint64_t size_bytes = 0;
  // Times in a row that nothing moved.
  uint32_t retries = 0;
  // Not to be started again earlier, by the queue's clock.
  int64_t again_ns = 0;

 private:
  friend class BlockQueue;
  FileQueue* queue = nullptr;
  uint64_t cut_bytes = 0;  // its size at first: what it counts as in flight
};

class BlockQueue {
 public:
  // A waiting class is passed over this often before one of its blocks goes
  // first all the same: under endless demand, write-back keeps 1/17 of the
  // transfers, and the memory it holds comes free at last.
  static constexpr int kPassedOverLimit = 16;

  // The first tries to repeat a transfer follow at once; then the kernel gets time to recover
  // before each. Meanwhile the others go on.
  static constexpr uint32_t kEagerRetries = 16;
  static constexpr int64_t kRetryPauseNanoseconds = 1'000'000;

  // EINTR and EAGAIN pass in microseconds; a transfer that has made no
  // progress in so many tries (five seconds, with their pauses) is
  // stuck, and an error is better than a run that hangs.
  static constexpr uint32_t kRetriesLimit = 5000;

  // For so long after the last demand request the window stays in force: the next one
  // is then bounded too.
  static constexpr int64_t kDemandRememberedNanoseconds = 10'000'000'000;

  using Clock = int64_t (*)();

  static constexpr uint64_t kNoWindow = ~uint64_t{0};

  // `write_window_bytes`: of the writes of class kWriteBack, per file, while there is
  // demand; one block is always allowed. `trace` may be null; its clock is the steady one.
  BlockQueue(uint64_t block_bytes, uint32_t depth, Clock clock = &MonotonicNanoseconds,
             uint64_t write_window_bytes = kNoWindow, Trace* trace = nullptr);
  ~BlockQueue();
  BlockQueue(const BlockQueue&) = delete;
  BlockQueue& operator=(const BlockQueue&) = delete;

  void Add(IoRequest* request);

  // The block to start now, or null: nothing waits but for its pause, or `depth` are in flight.
  IoBlock* Next();

  // How long until Next has a block whose pause is over; nothing where none pauses.
  std::optional<int64_t> PauseNanoseconds() const;

  // The backend gives a block back: `result` is the bytes moved, or -errno.
  void Returned(IoBlock* block, int64_t result);

  // Requests that are complete and whose `done` has not run.
  bool has_completed() const { return !completed_.empty(); }

  // Calls `done` of those, in order of completion; what completes meanwhile
  // waits for the next call. Returns how many ran.
  size_t RunCallbacks();

  size_t pending() const { return pending_; }
  uint32_t in_flight() const { return in_flight_; }
  IoStats stats() const;

 private:
  static constexpr int kClasses = 3;

  // A file whose turn it is, and which of its lanes (block_queue.cc).
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
  // False when nothing is left to do for the block.
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
  // Blocks to be started again. They keep their slots and go first, after their pauses: they hold
  // back requests that are nearly complete.
  std::deque<IoBlock*> again_;

  // One for each file with something waiting or in flight; those of files that
  // have neither are used again, so there are never more than files at work at once.
  std::vector<std::unique_ptr<FileQueue>> files_;
  std::optional<int64_t> last_demand_;
  uint64_t arrivals_ = 0;
  uint64_t cuts_ = 0;
  std::array<int, kClasses> passed_over_ = {};

  std::deque<IoRequest*> completed_;
  size_t pending_ = 0;
  uint32_t in_flight_ = 0;
  uint64_t in_flight_bytes_ = 0;  // of blocks cut and not released

  mutable Mutex stats_mutex_;
  IoStats stats_ ABSL_GUARDED_BY(stats_mutex_);
  // When the blocks now in flight began; 0 when there are none.
  int64_t busy_since_ ABSL_GUARDED_BY(stats_mutex_) = 0;
};

}  // namespace spillway
