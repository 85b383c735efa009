// The per-thread code of AccumulateGradient (engine/numeric/gradient_loops.h) on a GPU. Each sum
// has one thread: no atomics, so micro-batches are added in order. Memory-bound.
#pragma once

#include <cstdint>

#include "engine/numeric/number_formats.h"

namespace spillway {

inline constexpr uint32_t kAccumulateThreads = 256;
inline constexpr uint32_t kAccumulatePerThread = 4;
inline constexpr uint32_t kAccumulatePerBlock = kAccumulateThreads * kAccumulatePerThread;

struct AccumulateArguments {
  const void* gradient = nullptr;
  float* sums = nullptr;
  uint64_t count = 0;
};

template <DType kDType, bool kFirst>
SPILLWAY_ALWAYS_INLINE void AccumulateThread(const AccumulateArguments& arguments, uint64_t block,
                                             uint32_t thread) {
  using Stored = typename Number<kDType>::Stored;
  const Stored* const gradient = static_cast<const Stored*>(arguments.gradient);
  const uint64_t first = block * kAccumulatePerBlock + thread;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (uint32_t k = 0; k < kAccumulatePerThread; ++k) {
    const uint64_t i = first + k * kAccumulateThreads;
    if (i >= arguments.count) continue;
    const float value = Number<kDType>::ToFloat(gradient[i]);
    arguments.sums[i] = kFirst ? value : arguments.sums[i] + value;
  }
}

}  // namespace spillway
