#include "io/base/trace.h"

#include "io/base/clock.h"

namespace spillway {

absl::string_view SpanKindName(SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward:
      return "forward";
    case SpanKind::kLoss:
      return "loss";
    case SpanKind::kBackward:
      return "backward";
    case SpanKind::kRound:
      return "round";
    case SpanKind::kUpdate:
      return "update";
    case SpanKind::kCheck:
      return "check";
    case SpanKind::kSave:
      return "save";
    case SpanKind::kFill:
      return "fill";
    case SpanKind::kDeviceUpdate:
      return "device update";
    case SpanKind::kRead:
      return "read";
    case SpanKind::kWrite:
      return "write";
    case SpanKind::kCopyToDevice:
      return "copy to device";
    case SpanKind::kCopyToHost:
      return "copy to host";
    case SpanKind::kGather:
      return "gather";
    case SpanKind::kSum:
      return "sum";
    case SpanKind::kWaitDisk:
      return "wait for disk";
    case SpanKind::kWaitUpdate:
      return "wait for update";
    case SpanKind::kWaitCopy:
      return "wait for copy";
    case SpanKind::kWaitCollective:
      return "wait for other ranks";
    case SpanKind::kWaitCommit:
      return "wait for commit";
    case SpanKind::kCommit:
      return "commit";
    case SpanKind::kEvaluation:
      return "evaluation";
  }
  return "?";
}

void Trace::Record(const Span& span) {
  if (!on()) return;
  MutexLock lock(mutex_);
  if (spans_.size() < kMostSpans) {
    spans_.push_back(span);
  } else {
    ++lost_;
  }
}

void Trace::Take(std::vector<Span>* spans) {
  spans->clear();
  MutexLock lock(mutex_);
  spans_.swap(*spans);
}

uint64_t Trace::lost() const {
  MutexLock lock(mutex_);
  return lost_;
}

int64_t Trace::Now() { return MonotonicNanoseconds(); }

uint16_t Trace::ThisThread() {
  static std::atomic<uint16_t> threads{0};
  thread_local const uint16_t number = threads.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace spillway
