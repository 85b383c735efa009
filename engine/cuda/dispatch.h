// What the .cu files share: from a run's dtype to the kernel that was compiled for it, and the
// launch.
#pragma once

#include <cstdint>

#include "engine/cuda/kernels.h"
#include "engine/numeric/number_formats.h"
#include "engine/numeric/update_kind.h"

namespace spillway {

// Puts a kernel (a __global__ function of one argument, by value) into the stream.
LaunchError LaunchKernel(void* stream, const void* kernel, uint64_t blocks, uint32_t threads,
                         const void* arguments);

// run(Constant<dtype>()).
template <typename Run>
void ForDType(DType dtype, Run run) {
  switch (dtype) {
    case DType::kFloat32:
      return run(Constant<DType::kFloat32>());
    case DType::kBFloat16:
      return run(Constant<DType::kBFloat16>());
    case DType::kFloat16:
      return run(Constant<DType::kFloat16>());
  }
}

}  // namespace spillway
