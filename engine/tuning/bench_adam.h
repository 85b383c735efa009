// Measures the speed of the AdamW update on this machine, relative to the memory's speed.
#pragma once

#include <cstdint>

namespace spillway {

// Medians over alternating repeats of one update of all parameters and one plain copy.
struct AdamBenchResult {
  uint64_t parameters = 0;
  int threads = 0;
  double seconds = 0;           // one update
  double bytes_per_second = 0;  // kAdamBytesPerParameter each
  double memory_seconds = 0;    // copying half as many bytes, so that as many are read and written
  double memory_bytes_per_second = 0;  // read and written
  // bytes_per_second / memory_bytes_per_second. Above 1 if writing in place is cheaper than
  // copying: the lines written are in the cache already.
  double fraction_of_memory = 0;
};

// The bf16 gradient is read (2); weight (2), residual (2) and moments (4 + 4) are read and written.
inline constexpr uint64_t kAdamBytesPerParameter = 26;

// Memory that the measurement allocates: gradient and planes 14 bytes, and 26 for the copy.
inline constexpr uint64_t kAdamBenchBytesPerParameter = 40;

// Throws std::bad_alloc if there is too little memory, and std::system_error if the system does not
// start the threads. REQUIRES: parameters >= 1, threads >= 1, repeats >= 1.
AdamBenchResult RunAdamBench(uint64_t parameters, int threads, int repeats = 7);

}  // namespace spillway
