// Asynchronous reads and writes between memory and storage.
//
// An engine has one owner thread: the first that calls Submit or Poll.
// Requests belong to the caller and stay untouched and in place from Submit
// until their callback has begun; callbacks run only inside Poll, on the owner
// thread, and may submit further requests. Wake is the one method for any
// thread.
//
// Every completion is checked. A short transfer is continued from where it stopped; EINTR and
// EAGAIN are retried. Any other failure, and an end of file before the last byte that is needed,
// becomes the request's status, with path, offset and size in the message. If the kernel stops
// serving the engine, all current and later requests fail with that status, even if the kernel does
// not return them within seconds; their memory may then still be written to.
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

// Priority when the queue is full: a demand fetch (a thread is waiting) before prefetch, prefetch
// before write-back.
enum class IoClass : uint8_t { kDemand, kPrefetch, kWriteBack };

struct IoRequest {
  IoOp op = IoOp::kRead;
  IoClass io_class = IoClass::kDemand;
  const File* file = nullptr;
  // Offset, size and address are multiples of file->alignment_bytes().
  uint64_t offset_bytes = 0;
  char* data = nullptr;
  uint64_t size_bytes = 0;
  // For a read whose last block may extend beyond the end of its file: the number of bytes that
  // must exist. 0: all of them.
  uint64_t needed_bytes = 0;
  // The unit that it moves, for traces; -1: none.
  int32_t unit = -1;
  int32_t tile = -1;

  // Called exactly once, inside Poll.
  void (*done)(IoRequest& request, const absl::Status& status) = nullptr;
  void* context = nullptr;

 private:
  friend class BlockQueue;
  // The engine's own state between Submit and done.
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
  // Time with at least one block in flight.
  double busy_seconds = 0;
};

// Optional kernel features in use, for logs and benchmarks.
struct IoFeatures {
  struct Refused {
    std::string feature;  // "io_uring" if threads replace it
    std::string reason;   // with the remedy
  };
  std::vector<std::string> on;
  std::vector<Refused> refused;
};

class IoEngine {
 public:
  // Waits for the transfers in flight, so that no memory is written later; callbacks that have not
  // run never will. REQUIRES: called on the owner thread, or nothing is pending.
  virtual ~IoEngine() = default;

  // Owner thread. Never blocks and never fails: errors arrive at `done`.
  virtual void Submit(IoRequest* request) = 0;

  // Owner thread, never from a callback. Starts submitted requests, waits until something
  // completes, Wake is called or `timeout` passes (zero only polls), runs the callbacks of
  // completed requests, and returns how many ran.
  virtual size_t Poll(absl::Duration timeout) = 0;

  // Any thread. Makes the current Poll return, or else the next one.
  virtual void Wake() = 0;

  // Requests submitted whose callback has not run. Owner thread.
  virtual size_t pending() const = 0;

  // "io_uring" or "threads".
  virtual absl::string_view name() const = 0;

  // Owner thread, or before it exists.
  virtual IoFeatures features() const { return {}; }

  // Any thread.
  virtual IoStats stats() const = 0;
};

}  // namespace spillway
