// The one kernel of the device check.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void AddBytes(unsigned char* data, uint64_t bytes, unsigned char amount) {
  const uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x;
  if (i < bytes) data[i] += amount;
}

}  // namespace

cudaError_t AddBytesOnStream(char* data, uint64_t bytes, char amount, cudaStream_t stream) {
  const unsigned blocks = static_cast<unsigned>((bytes + 255) / 256);
  AddBytes<<<blocks, 256, 0, stream>>>(reinterpret_cast<unsigned char*>(data), bytes,
                                       static_cast<unsigned char>(amount));
  return cudaGetLastError();
}
