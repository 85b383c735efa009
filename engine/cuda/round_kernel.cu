#include <cuda_runtime.h>

#include "engine/cuda/dispatch.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/round_body.h"

namespace spillway {
namespace {

// One thread's view of a warp; values per thread are this thread's.
struct DeviceWarp {
  template <typename T>
  struct PerThread {
    T own;
    __device__ T& operator[](int) { return own; }
    __device__ const T& operator[](int) const { return own; }
  };

  static constexpr unsigned kAll = 0xffffffff;

  template <typename Do>
  __device__ void ForEach(Do work) const {
    work(static_cast<int>(threadIdx.x % kWarpThreads));
  }
  __device__ PerThread<MantissaSteps> FromThreadBefore(const PerThread<MantissaSteps>& steps,
                                                       int distance) const {
    return {{__shfl_up_sync(kAll, steps.own.from_even, distance),
             __shfl_up_sync(kAll, steps.own.from_odd, distance)}};
  }
  __device__ int FirstWhere(const PerThread<bool>& flags) const {
    const unsigned set = __ballot_sync(kAll, flags.own);
    return set == 0 ? kWarpThreads : __ffs(static_cast<int>(set)) - 1;
  }
  __device__ uint64_t Of(const PerThread<uint64_t>& values, int thread) const {
    return __shfl_sync(kAll, values.own, thread);
  }
};

template <DType kDType>
__global__ void __launch_bounds__(kRoundThreads)
    RoundKernel(const __grid_constant__ RoundArguments arguments) {
  __shared__ RoundShared shared;
  const RoundBlock<kDType> block(arguments, blockIdx.x);
  const uint64_t chunks = block.chunks();
  const int lane = static_cast<int>(threadIdx.x / kWarpThreads);
  RoundThread registers;
  double sum = 0;
  block.Load(0, threadIdx.x, registers);
  for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
    __syncthreads();
    block.Store(chunk, threadIdx.x, registers, shared);
    if (chunk + 1 < chunks) block.Load(chunk + 1, threadIdx.x, registers);
    __syncthreads();
    block.Add(DeviceWarp(), lane, sum, shared);
  }
  __syncthreads();
  if (threadIdx.x == 0) block.Finish(shared);
}

}  // namespace

LaunchError LaunchRound(void* stream, DType dtype, const RoundArguments& arguments) {
  if (arguments.total == 0) return nullptr;
  const void* kernel = nullptr;
  ForDType(dtype, [&](auto constant) {
    kernel = reinterpret_cast<const void*>(&RoundKernel<decltype(constant)::kValue>);
  });
  return LaunchKernel(stream, kernel, RoundBlocks(arguments), kRoundThreads, &arguments);
}

}  // namespace spillway
