#include "engine/torch/cuda/cuda_tensor_kernels.h"

#include <c10/cuda/CUDAStream.h>

#include "absl/status/status.h"
#include "engine/cuda/device_arithmetic.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/launch_status.h"
#include "engine/numeric/gradient_loops.h"

namespace spillway {
namespace {

void* CurrentStream() { return c10::cuda::getCurrentCUDAStream().stream(); }

void Check(const absl::Status& status) { TORCH_CHECK(status.ok(), std::string(status.message())); }

class Kernels final : public TensorKernels {
 public:
  void AccumulateGradient(const torch::Tensor& gradient, float* sums, bool first) override {
    if (gradient.numel() == 0) return;
    Check(AccumulateGradientOnDevice(CurrentStream(), DTypeOf(gradient, "AccumulateGradient"),
                                     gradient.const_data_ptr(), gradient.numel(), sums, first));
  }

  void AccumulateRounded(const torch::Tensor&, void*, bool) override {
    TORCH_CHECK(false, "gradient sums on a GPU are in fp32");
  }

  void FillZero(void* data, uint64_t bytes) override {
    if (bytes == 0) return;
    Check(LaunchStatus("zeros", LaunchZero(CurrentStream(), data, bytes)));
  }

  void Dropout(const DropoutKey& key, double p, const std::vector<int64_t>& samples,
               const torch::Tensor& in, const torch::Tensor& out) override {
    const DType dtype = DTypeOf(in, "Dropout");
    const int64_t per_sample = in.numel() / in.size(0);
    const auto* const from = static_cast<const char*>(in.const_data_ptr());
    auto* const to = static_cast<char*>(out.mutable_data_ptr());
    for (int64_t i = 0; i < in.size(0); ++i) {
      const int64_t offset = i * per_sample * DTypeBytes(dtype);
      DropoutKey mask = key;
      mask.sample = static_cast<uint64_t>(samples[i]);
      Check(DropoutApplyOnDevice(CurrentStream(), mask, p, 0, per_sample, dtype, from + offset,
                                 to + offset));
    }
  }
};

}  // namespace

TensorKernels* CudaTensorKernels() {
  static auto* const kernels = new Kernels;
  return kernels;
}

}  // namespace spillway
