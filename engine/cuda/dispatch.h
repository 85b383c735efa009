// What the .cu files share: the launch, and (update_kind.h) from a run's dtype to the kernel that
// was compiled for it.
#pragma once

#include <cstdint>

#include "engine/cuda/kernels.h"

namespace spillway {

// Puts a kernel (a __global__ function of one argument, by value) into the stream.
LaunchError LaunchKernel(void* stream, const void* kernel, uint64_t blocks, uint32_t threads,
                         const void* arguments);

}  // namespace spillway
