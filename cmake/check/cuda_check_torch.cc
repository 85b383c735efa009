// The LibTorch half of cuda_check.cu. Exit code 0: a GPU doubled the numbers rightly.
#include <c10/cuda/CUDAStream.h>
#include <torch/torch.h>

#include <cstdio>

cudaError_t DoubleOnStream(float* device_values, int count, cudaStream_t stream);

int main() {
  if (!torch::cuda::is_available()) {
    std::fprintf(stderr, "no usable CUDA device\n");
    return 1;
  }
  const int count = 1000;
  torch::Tensor values = torch::ones({count}, torch::device(torch::kCUDA));
  const cudaError_t error =
      DoubleOnStream(values.data_ptr<float>(), count, c10::cuda::getCurrentCUDAStream().stream());
  if (error != cudaSuccess) {
    std::fprintf(stderr, "kernel launch: %s\n", cudaGetErrorString(error));
    return 1;
  }
  const bool right = values.eq(2).all().item<bool>();
  std::printf("%s\n", right ? "ok" : "wrong numbers");
  return right ? 0 : 1;
}
