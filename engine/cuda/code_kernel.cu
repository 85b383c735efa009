#include <cuda_runtime.h>

#include "engine/cuda/code_body.h"
#include "engine/cuda/dispatch.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/warp_max.h"

namespace spillway {
namespace {

__global__ void __launch_bounds__(kCodeThreads)
    CodeKernel(const __grid_constant__ CodeArguments arguments) {
  __shared__ uint32_t largest;
  const CodeThread thread(arguments, blockIdx.x, threadIdx.x);
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  const uint32_t of_warp = WarpMax(thread.Magnitude());
  if (threadIdx.x % 32 == 0) atomicMax(&largest, of_warp);
  __syncthreads();
  thread.Store(largest);
}

template <bool kFirst>
__global__ void __launch_bounds__(kCodeThreads)
    AccumulateCodedKernel(const __grid_constant__ AccumulateCodedArguments arguments) {
  AccumulateCodedThread<kFirst>(arguments, blockIdx.x, threadIdx.x);
}

uint64_t BlocksOf(uint64_t count) { return (count + kCodeThreads - 1) / kCodeThreads; }

}  // namespace

LaunchError LaunchCode(void* stream, const CodeArguments& arguments) {
  if (arguments.count == 0) return nullptr;
  return LaunchKernel(stream, reinterpret_cast<const void*>(&CodeKernel), BlocksOf(arguments.count),
                      kCodeThreads, &arguments);
}

LaunchError LaunchAccumulateCoded(void* stream, bool first,
                                  const AccumulateCodedArguments& arguments) {
  if (arguments.count == 0) return nullptr;
  const void* const kernel = first ? reinterpret_cast<const void*>(&AccumulateCodedKernel<true>)
                                   : reinterpret_cast<const void*>(&AccumulateCodedKernel<false>);
  return LaunchKernel(stream, kernel, BlocksOf(arguments.count), kCodeThreads, &arguments);
}

}  // namespace spillway
