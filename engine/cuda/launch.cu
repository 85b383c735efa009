#include <cuda_runtime.h>

#include "engine/cuda/dispatch.h"
#include "engine/cuda/kernels.h"

namespace spillway {
namespace {

LaunchError Reason(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return nullptr;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidKernelImage:
    case cudaErrorUnsupportedPtxVersion:
      return kNoKernels;
    default:
      return cudaGetErrorString(error);
  }
}

}  // namespace

// Avoids <<<>>>, whose error is only the thread's last one, which may belong to another call.
LaunchError LaunchKernel(void* stream, const void* kernel, uint64_t blocks, uint32_t threads,
                         const void* arguments) {
  void* pointers[] = {const_cast<void*>(arguments)};
  return Reason(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks)), dim3(threads),
                                 pointers, 0, static_cast<cudaStream_t>(stream)));
}

LaunchError LaunchZero(void* stream, void* data, uint64_t bytes) {
  return Reason(cudaMemsetAsync(data, 0, bytes, static_cast<cudaStream_t>(stream)));
}

}  // namespace spillway
