// Code that the .cu files share: the launch, and (update_kind.h) the choice of the kernel compiled
// for a run's dtype.
#pragma once

#include <cstdint>

#include "engine/cuda/kernels.h"

namespace spillway {

// Launches a kernel (a __global__ function of one argument, by value) in the stream.
LaunchError LaunchKernel(void* stream, const void* kernel, uint64_t blocks, uint32_t threads,
                         const void* arguments);

}  // namespace spillway
