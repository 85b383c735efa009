#include <cuda_runtime.h>

#include "engine/cuda/dispatch.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/update_body.h"

namespace spillway {
namespace {

template <DType kDType, UpdateRule kRule>
__global__ void __launch_bounds__(kUpdateThreads)
    UpdateKernel(const __grid_constant__ UpdateArguments arguments) {
  const uint32_t unstorable = UpdateThread<kDType, kRule>(arguments, blockIdx.x, threadIdx.x);
  // Only in a run that is about to end.
  if (unstorable != 0) atomicMax(arguments.largest_unstorable_bits, unstorable);
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
      kernel = reinterpret_cast<const void*>(
          &UpdateKernel<decltype(dtype_constant)::kValue, decltype(rule_constant)::kValue>);
    });
  });
  return LaunchKernel(stream, kernel, blocks, kUpdateThreads, &arguments);
}

}  // namespace spillway
