// The kernels of engine/cuda/kernels.h without a GPU: emulated_kernels.cc runs their bodies on
// the CPU, over all blocks and threads of the grids that a launch would have. A launch is done
// when it returns; device memory is the host's.
#pragma once

#include <atomic>

namespace spillway {

// For a stream that is not null.
inline void* EmulatedStream() {
  static char stream;
  return &stream;
}

struct EmulatedLaunches {
  std::atomic<int> kernels{0};
  std::atomic<int> memsets{0};
};

// Since the program began.
EmulatedLaunches& Launches();

// While it lives, every launch is refused with this reason.
class RefusedLaunches {
 public:
  explicit RefusedLaunches(const char* reason);
  ~RefusedLaunches();
  RefusedLaunches(const RefusedLaunches&) = delete;
  RefusedLaunches& operator=(const RefusedLaunches&) = delete;
};

}  // namespace spillway
