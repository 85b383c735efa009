// How bytes get between memory and storage: asynchronous reads and writes.
//
// An engine has one owner thread: the first that calls Submit or Poll.
// Requests belong to the caller and stay untouched and in place from Submit
// until their callback has begun; callbacks run only inside Poll, on the owner
// thread, and may submit further requests. Wake is the one method for any
// thread.
//
// Every completion is checked. A short transfer is continued from where it
// stopped; EINTR and EAGAIN are retried; any other failure, and an end of file
// before the last byte that is needed, becomes the request's status, with path, offset and
// size in the message. Where the kernel serves the engine itself no longer, that is the status of
// what is under way and of all that follows. What it does not give back within seconds then fails,
// too, and its memory may still be written to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "io/file.h"
#include "io/io_options.h"

namespace spillway {

enum class IoOp : uint8_t { kRead, kWrite };

// Which request goes first when the queue is full: a demand fetch (somebody
// is waiting) before prefetch, prefetch before write-back.
enum class IoClass : uint8_t { kDemand, kPrefetch, kWriteBack };

struct IoRequest {
  IoOp op = IoOp::kRead;
  IoClass io_class = IoClass::kDemand;
  const File* file = nullptr;
  // Offset, size and address are multiples of file->alignment_bytes().
  uint64_t offset_bytes = 0;
  char* data = nullptr;
  uint64_t size_bytes = 0;
  // Of a read whose last block may reach behind its file's end: so many bytes are asked for, and
  // what is behind them may be missing. 0: all are.
  uint64_t needed_bytes = 0;
  // What it moves, for traces; -1: nothing that has a name.
  int32_t unit = -1;
  int32_t tile = -1;

  // Called exactly once, inside Poll.
  void (*done)(IoRequest& request, const absl::Status& status) = nullptr;
  void* context = nullptr;

 private:
  friend class BlockQueue;
  // The engine's own bookkeeping between Submit and done.
  uint64_t arrival = 0;
  uint64_t submitted_bytes = 0;
  uint32_t blocks_in_flight = 0;
  int64_t submitted_ns = 0;  // 0: not traced
  int64_t began_ns = 0;
  uint64_t in_flight_at_begin = 0;
  absl::Status status;
};

struct IoStats {
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  // Time during which at least one block was in flight.
  double busy_seconds = 0;
};

// What the kernel gives an engine beyond plain transfers, for logs and benchmarks.
struct IoFeatures {
  struct Refused {
    std::string feature;  // io_uring itself, where threads stand in for it
    std::string reason;   // with the remedy
  };
  std::vector<std::string> on;
  std::vector<Refused> refused;
};

class IoEngine {
 public:
  // Waits for the transfers in flight, so that no memory is written later;
  // callbacks that have not run never will. REQUIRES: the owner thread, or
  // nothing pending.
  virtual ~IoEngine() = default;

  // Owner thread. Never blocks and never fails: errors arrive at `done`.
  virtual void Submit(IoRequest* request) = 0;

  // Owner thread, never from a callback. Starts what was submitted, waits until
  // something completes, Wake is called or `timeout` passes (zero: only looks),
  // runs the callbacks of what completed, and returns how many ran.
  virtual size_t Poll(absl::Duration timeout) = 0;

  // Any thread: makes the Poll in progress, or else the next one, return.
  virtual void Wake() = 0;

  // Requests submitted whose callback has not run. Owner thread.
  virtual size_t pending() const = 0;

  // "io_uring" or "threads".
  virtual absl::string_view name() const = 0;

  // Owner thread, or before there is one.
  virtual IoFeatures features() const { return {}; }

  // Any thread.
  virtual IoStats stats() const = 0;
};

}  // namespace spillway
