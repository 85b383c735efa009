// A warp on the CPU: what each of its 32 threads has stands side by side, and they take turns.
#pragma once

#include <atomic>

#include "engine/cuda/sum_in_order.h"

namespace spillway {

struct HostWarp {
  // Times that a warp has added up what its threads have, since the program began.
  static inline std::atomic<int> rounds = 0;

  template <typename T>
  struct PerThread {
    T own[kWarpThreads];
    T& operator[](int thread) { return own[thread]; }
    const T& operator[](int thread) const { return own[thread]; }
  };

  template <typename Do>
  void ForEach(Do work) const {
    for (int thread = 0; thread < kWarpThreads; ++thread) work(thread);
  }
  // As __shfl_up_sync: the first threads keep theirs.
  template <typename T>
  PerThread<T> FromThreadBefore(const PerThread<T>& values, int distance) const {
    PerThread<T> before = values;
    for (int thread = distance; thread < kWarpThreads; ++thread) {
      before[thread] = values[thread - distance];
    }
    return before;
  }
  int FirstWhere(const PerThread<bool>& flags) const {
    ++rounds;
    int thread = 0;
    while (thread < kWarpThreads && !flags[thread]) ++thread;
    return thread;
  }
  template <typename T>
  T Of(const PerThread<T>& values, int thread) const {
    return values[thread];
  }
};

}  // namespace spillway
