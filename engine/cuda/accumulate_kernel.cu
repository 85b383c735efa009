#include <cuda_runtime.h>

#include "engine/cuda/accumulate_body.h"
#include "engine/cuda/dispatch.h"
#include "engine/cuda/kernels.h"

namespace spillway {
namespace {

template <DType kDType, bool kFirst>
__global__ void __launch_bounds__(kAccumulateThreads)
    AccumulateKernel(const __grid_constant__ AccumulateArguments arguments) {
  AccumulateThread<kDType, kFirst>(arguments, blockIdx.x, threadIdx.x);
}

}  // namespace

LaunchError LaunchAccumulate(void* stream, DType dtype, bool first,
                             const AccumulateArguments& arguments) {
  if (arguments.count == 0) return nullptr;
  const uint64_t blocks = (arguments.count + kAccumulatePerBlock - 1) / kAccumulatePerBlock;
  const void* kernel = nullptr;
  ForDType(dtype, [&](auto constant) {
    constexpr DType kDType = decltype(constant)::kValue;
    kernel = first ? reinterpret_cast<const void*>(&AccumulateKernel<kDType, true>)
                   : reinterpret_cast<const void*>(&AccumulateKernel<kDType, false>);
  });
  return LaunchKernel(stream, kernel, blocks, kAccumulateThreads, &arguments);
}

}  // namespace spillway
