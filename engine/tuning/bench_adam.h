// How fast the AdamW update is on this machine, against what its memory can do.
#pragma once

#include <cstdint>

namespace spillway {

// Medians over alternating repeats of one update of all parameters and one plain copy.
struct AdamBenchResult {
  uint64_t parameters = 0;
  int threads = 0;
  double seconds = 0;                  // one update
  double bytes_per_second = 0;         // kAdamBytesPerParameter each
  double memory_seconds = 0;           // copying half as many bytes: as much is read and written
  double memory_bytes_per_second = 0;  // read and written
  // bytes_per_second over memory_bytes_per_second. Above 1 where writing in place is
  // cheaper than copying: the lines written are in the cache already.
  double fraction_of_memory = 0;
};

// bf16 gradient 2 read; weight 2, residual 2 and moments 4 + 4 read and written.
inline constexpr uint64_t kAdamBytesPerParameter = 26;

// What the measurement allocates: the gradient and the planes, 14 bytes, and 26 for the copy.
inline constexpr uint64_t kAdamBenchBytesPerParameter = 40;

// Throws std::bad_alloc where there is too little memory, and std::system_error where the system
// does not start the threads. REQUIRES: parameters >= 1, threads >= 1, repeats >= 1.
AdamBenchResult RunAdamBench(uint64_t parameters, int threads, int repeats = 7);

}  // namespace spillway
