#include "io/base/trace.h"

#include "io/base/clock.h"

namespace spillway {

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
