// What happened when: spans of work, waits and transfers, noted by whoever does them and taken
// away from time to time by one reader (engine/report/step_recorder.h), who makes a time line
// and a trace of them.
//
// Any thread may record. Memory is what is between two takes, at most kMostSpans; what comes
// on top is counted and lost. While it is off, recording is one look at a flag; where nobody
// gave a trace at all, one comparison with null.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "io/base/mutex.h"

namespace spillway {

enum class SpanKind : uint8_t {
  // The compute thread's operations.
  kForward,
  kLoss,
  kBackward,
  // A worker's, on one tile.
  kRound,
  kUpdate,
  kCheck,  // of what was fetched
  kSave,   // checksums of what only lives in memory, for a commit
  kFill,   // with the first state
  // A separate device's own: it rounds or updates a tile.
  kDeviceUpdate,
  // Transfers.
  kRead,
  kWrite,
  // Between the host's memory and a separate device's.
  kCopyToDevice,
  kCopyToHost,
  // Exchanges with other ranks: a unit's weights, and its gradient.
  kGather,
  kSum,
  // What the compute thread waited for.
  kWaitDisk,
  kWaitUpdate,
  kWaitCopy,
  kWaitCollective,  // for other ranks
  kWaitCommit,
  // From the beginning of a commit until it is durable; an evaluation.
  kCommit,
  kEvaluation,
};

// "forward", "read", "wait for disk".
absl::string_view SpanKindName(SpanKind kind);

struct Span {
  SpanKind kind = SpanKind::kForward;
  // Of a transfer its IoClass; of a wait the SpanKind of the operation that waited.
  uint8_t detail = 0;
  uint16_t thread = 0;  // Trace::ThisThread of who did it
  int32_t unit = -1;    // -1: of none
  int32_t tile = -1;
  int64_t begin_ns = 0;  // Trace::Now
  int64_t end_ns = 0;
  // Transfers only, and of copies and exchanges the bytes: when it was submitted (it began when its
  // first block did), and what was in flight just after it began and just after it ended.
  int64_t submitted_ns = 0;
  uint64_t bytes = 0;
  uint64_t in_flight_at_begin = 0;
  uint64_t in_flight_at_end = 0;
};

class Trace {
 public:
  // What a disk of 10 GB/s does in ten seconds, in tiles of 3.5 MiB: 4 MiB of memory.
  static constexpr size_t kMostSpans = 1 << 16;

  Trace() = default;
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Off at first. Any thread, like all below.
  void TurnOn(bool on) { on_.store(on, std::memory_order_relaxed); }
  bool on() const { return on_.load(std::memory_order_relaxed); }

  // Keeps the span, if it is on and there is room.
  void Record(const Span& span);

  // What was recorded since the last time, in order of recording, which is that of the ends
  // among the spans of one thread. `spans` is replaced.
  void Take(std::vector<Span>* spans);
  // Spans lost so far.
  uint64_t lost() const;

  // Nanoseconds of the steady clock, as everything that measures time here uses it.
  static int64_t Now();
  // A small number of the calling thread, the same for as long as it lives.
  static uint16_t ThisThread();

 private:
  std::atomic<bool> on_{false};
  mutable Mutex mutex_;
  std::vector<Span> spans_ ABSL_GUARDED_BY(mutex_);
  uint64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Whether `trace` is there and on.
inline bool IsOn(const Trace* trace) { return trace != nullptr && trace->on(); }

// A span from here to the end of its block, on this thread. `trace` may be null.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, SpanKind kind, int unit = -1, int tile = -1)
      : trace_(IsOn(trace) ? trace : nullptr) {
    if (trace_ == nullptr) return;
    span_.kind = kind;
    span_.unit = unit;
    span_.tile = tile;
    span_.begin_ns = Trace::Now();
  }
  ~TraceSpan() {
    if (trace_ == nullptr) return;
    span_.end_ns = Trace::Now();
    span_.thread = Trace::ThisThread();
    trace_->Record(span_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Trace* const trace_;
  Span span_;
};

}  // namespace spillway
