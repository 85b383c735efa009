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
#include "io/base/mutex.h"
#include "io/base/span.h"

namespace spillway {

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
