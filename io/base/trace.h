// Traced spans of work, waits and transfers. Any thread may record; one reader
// (engine/report/step_recorder.h) takes them from time to time and makes a time line and a trace.
//
// Memory holds the spans between two takes, at most kMostSpans; further ones are counted and
// dropped. While the trace is off, recording only tests a flag; without a trace, only a null
// pointer.
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
  // Ten seconds of a disk at 10 GB/s, in tiles of 3.5 MiB: 4 MiB of memory.
  static constexpr size_t kMostSpans = 1 << 16;

  Trace() = default;
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Off at first. Any thread, as for all methods below.
  void TurnOn(bool on) { on_.store(on, std::memory_order_relaxed); }
  bool on() const { return on_.load(std::memory_order_relaxed); }

  // Stores the span if the trace is on and not full.
  void Record(const Span& span);

  // Replaces `spans` by those recorded since the last call, in order of recording: on each thread
  // in order of their ends.
  void Take(std::vector<Span>* spans);
  // Spans lost so far.
  uint64_t lost() const;

  // Nanoseconds of the steady clock, which all time measurements use.
  static int64_t Now();
  // A small number that identifies the calling thread for its lifetime.
  static uint16_t ThisThread();

 private:
  std::atomic<bool> on_{false};
  mutable Mutex mutex_;
  std::vector<Span> spans_ ABSL_GUARDED_BY(mutex_);
  uint64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Whether `trace` is non-null and on.
inline bool IsOn(const Trace* trace) { return trace != nullptr && trace->on(); }

// A span from its construction to the end of its block, on this thread. `trace` may be null.
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
