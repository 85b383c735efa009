// The clock that only goes forward: of durations, and of traces. And what processors have been
// busy.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace spillway {

inline int64_t MonotonicNanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of processors, that this process has had since its start, on all of its threads.
inline double ProcessorSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace spillway
