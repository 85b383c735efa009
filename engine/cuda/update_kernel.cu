#include <cuda_runtime.h>

#include "engine/cuda/dispatch.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/update_body.h"
#include "engine/cuda/warp_max.h"

namespace spillway {
namespace {

__device__ const MomentCode device_code1 = kSignedMomentCode;
__device__ const MomentCode device_code2 = kUnsignedMomentCode;

template <WeightFormat kFormat, UpdateRule kRule, MomentFormat kMoments>
__global__ void __launch_bounds__(kUpdateThreads)
    UpdateKernel(const __grid_constant__ UpdateArguments arguments) {
  UpdateThread<kFormat, kRule, kMoments> thread(arguments, blockIdx.x, threadIdx.x);
  CodedMoments<kMoments> coded;
  if constexpr (kMoments == MomentFormat::kEightBit) coded = {&device_code1, &device_code2};
  const uint32_t unstorable = thread.Update(coded);
  // Only in a run that is about to end.
  if (unstorable != 0) atomicMax(arguments.largest_unstorable_bits, unstorable);
  if constexpr (IsCoded(kMoments)) {
    constexpr uint32_t kMaxima = 2 * kUpdatePerThread;
    __shared__ uint32_t shared[kMaxima];
    if (threadIdx.x < kMaxima) shared[threadIdx.x] = 0;
    __syncthreads();
    for (uint32_t m = 0; m < kMaxima; ++m) {
      const uint32_t largest = WarpMax(thread.Magnitude(m));
      if (threadIdx.x % 32 == 0) atomicMax(&shared[m], largest);
    }
    __syncthreads();
    uint32_t maxima[kMaxima];
    for (uint32_t m = 0; m < kMaxima; ++m) maxima[m] = shared[m];
    thread.Store(coded, maxima);
  }
}

}  // namespace

LaunchError LaunchUpdate(void* stream, const UpdateKind& kind, const UpdateArguments& arguments) {
  const uint32_t blocks = (arguments.end - arguments.begin + kUpdatePerBlock - 1) / kUpdatePerBlock;
  if (blocks == 0) return nullptr;
  const void* const kernel = ForDeviceUpdateKind(kind, [](auto weights, auto rule, auto moments) {
    return reinterpret_cast<const void*>(
        &UpdateKernel<decltype(weights)::kValue, decltype(rule)::kValue,
                      decltype(moments)::kValue>);
  });
  return LaunchKernel(stream, kernel, blocks, kUpdateThreads, &arguments);
}

}  // namespace spillway
