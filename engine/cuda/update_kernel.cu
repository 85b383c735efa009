#include <cuda_runtime.h>

#include "engine/cuda/dispatch.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/update_body.h"

namespace spillway {
namespace {

__device__ const MomentCode device_code1 = kSignedMomentCode;
__device__ const MomentCode device_code2 = kUnsignedMomentCode;

template <DType kDType, UpdateRule kRule, bool kCoded>
__global__ void __launch_bounds__(kUpdateThreads)
    UpdateKernel(const __grid_constant__ UpdateArguments arguments) {
  UpdateThread<kDType, kRule, kCoded> thread(arguments, blockIdx.x, threadIdx.x);
  const uint32_t unstorable = thread.Update(device_code1, device_code2);
  // Only in a run that is about to end.
  if (unstorable != 0) atomicMax(arguments.largest_unstorable_bits, unstorable);
  if constexpr (kCoded) {
    constexpr uint32_t kMaxima = 2 * kUpdatePerThread;
    __shared__ uint32_t shared[kMaxima];
    if (threadIdx.x < kMaxima) shared[threadIdx.x] = 0;
    __syncthreads();
    for (uint32_t m = 0; m < kMaxima; ++m) {
      const uint32_t largest = __reduce_max_sync(0xffffffff, thread.Magnitude(m));
      if (threadIdx.x % 32 == 0) atomicMax(&shared[m], largest);
    }
    __syncthreads();
    uint32_t maxima[kMaxima];
    for (uint32_t m = 0; m < kMaxima; ++m) maxima[m] = shared[m];
    thread.Store(device_code1, device_code2, maxima);
  }
}

template <typename Run>
void ForRule(UpdateRule rule, Run run) {
  switch (rule) {
    case UpdateRule::kAdamW:
      return run(Constant<UpdateRule::kAdamW>());
    case UpdateRule::kAdam:
      return run(Constant<UpdateRule::kAdam>());
    case UpdateRule::kSgd:
      return run(Constant<UpdateRule::kSgd>());
    case UpdateRule::kSgdMomentum:
      return run(Constant<UpdateRule::kSgdMomentum>());
    case UpdateRule::kSgdNesterov:
      return run(Constant<UpdateRule::kSgdNesterov>());
  }
}

}  // namespace

LaunchError LaunchUpdate(void* stream, DType dtype, UpdateRule rule,
                         const UpdateArguments& arguments) {
  const uint32_t blocks = (arguments.end - arguments.begin + kUpdatePerBlock - 1) / kUpdatePerBlock;
  if (blocks == 0) return nullptr;
  const void* kernel = nullptr;
  ForDType(dtype, [&](auto dtype_constant) {
    ForRule(rule, [&](auto rule_constant) {
      constexpr DType kDType = decltype(dtype_constant)::kValue;
      constexpr UpdateRule kRule = decltype(rule_constant)::kValue;
      kernel = arguments.planes.codes1 != nullptr
                   ? reinterpret_cast<const void*>(&UpdateKernel<kDType, kRule, true>)
                   : reinterpret_cast<const void*>(&UpdateKernel<kDType, kRule, false>);
    });
  });
  return LaunchKernel(stream, kernel, blocks, kUpdateThreads, &arguments);
}

}  // namespace spillway
