// The clock that only goes forward: of durations, and of traces.
#pragma once

#include <chrono>
#include <cstdint>

namespace spillway {

inline int64_t MonotonicNanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace spillway
