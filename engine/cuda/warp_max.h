// Only for .cu files: empty for other compilers.
#pragma once

#if defined(__CUDACC__)

#include <cstdint>

namespace spillway {

// The maximum of a warp's values, returned to all threads. GPUs before Ampere have no instruction
// for it.
__device__ inline uint32_t WarpMax(uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffff, value);
#else
  for (int apart = 16; apart > 0; apart /= 2) {
    value = max(value, __shfl_xor_sync(0xffffffff, value, apart));
  }
  return value;
#endif
}

}  // namespace spillway

#endif
