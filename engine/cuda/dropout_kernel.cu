#include <cuda_runtime.h>

#include "engine/cuda/dispatch.h"
#include "engine/cuda/dropout_body.h"
#include "engine/cuda/kernels.h"

namespace spillway {
namespace {

template <DType kDType>
__global__ void __launch_bounds__(kDropoutThreads)
    DropoutKernel(const __grid_constant__ DropoutArguments arguments) {
  DropoutThread<kDType>(arguments, blockIdx.x, threadIdx.x);
}

}  // namespace

LaunchError LaunchDropout(void* stream, DType dtype, const DropoutArguments& arguments) {
  if (arguments.count == 0) return nullptr;
  const void* kernel = nullptr;
  ForDType(dtype, [&](auto constant) {
    kernel = reinterpret_cast<const void*>(&DropoutKernel<decltype(constant)::kValue>);
  });
  return LaunchKernel(stream, kernel, DropoutThreadBlocks(arguments), kDropoutThreads, &arguments);
}

}  // namespace spillway
