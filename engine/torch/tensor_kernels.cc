#include "engine/torch/tensor_kernels.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "engine/numeric/gradient_loops.h"
#include "engine/numeric/optimizer_spec.h"

namespace spillway {
namespace {

// Minimum number of elements per thread.
constexpr int64_t kGrain = 64 * 1024;
constexpr int64_t kZeroGrain = int64_t{1} << 20;  // bytes

class CpuKernels final : public TensorKernels {
 public:
  void AccumulateGradient(const torch::Tensor& gradient, float* sums, bool first) override {
    const DType dtype = DTypeOf(gradient, "AccumulateGradient");
    const auto* data = static_cast<const char*>(gradient.const_data_ptr());
    at::parallel_for(0, gradient.numel(), kGrain, [&](int64_t begin, int64_t end) {
      spillway::AccumulateGradient(dtype, data + begin * DTypeBytes(dtype), end - begin,
                                   sums + begin, first);
    });
  }

  void AccumulateRounded(const torch::Tensor& gradient, void* sums, bool first) override {
    const DType dtype = DTypeOf(gradient, "AccumulateRounded");
    const auto* data = static_cast<const char*>(gradient.const_data_ptr());
    auto* const to = static_cast<char*>(sums);
    at::parallel_for(0, gradient.numel(), kGrain, [&](int64_t begin, int64_t end) {
      const int64_t offset = begin * DTypeBytes(dtype);
      spillway::AccumulateRounded(dtype, data + offset, end - begin, to + offset, first);
    });
  }

  void FillZero(void* data, uint64_t bytes) override {
    at::parallel_for(0, static_cast<int64_t>(bytes), kZeroGrain, [&](int64_t begin, int64_t end) {
      std::memset(static_cast<char*>(data) + begin, 0, end - begin);
    });
  }

  void Dropout(const DropoutKey& key, double p, const std::vector<int64_t>& samples,
               const torch::Tensor& in, const torch::Tensor& out) override {
    // Elements that one thread processes at a time. DropoutApply accepts any ranges: the size does
    // not affect bits.
    constexpr int64_t kRange = 16384;
    const DType dtype = DTypeOf(in, "Dropout");
    const int64_t per_sample = in.numel() / in.size(0);
    const int64_t ranges = (per_sample + kRange - 1) / kRange;
    const auto* from = static_cast<const char*>(in.const_data_ptr());
    auto* to = static_cast<char*>(out.mutable_data_ptr());
    at::parallel_for(0, in.size(0) * ranges, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t sample = i / ranges;
        const int64_t begin = i % ranges * kRange;
        const int64_t offset = (sample * per_sample + begin) * DTypeBytes(dtype);
        DropoutKey mask = key;
        mask.sample = static_cast<uint64_t>(samples[sample]);
        DropoutApply(mask, p, begin, std::min(kRange, per_sample - begin), dtype, from + offset,
                     to + offset);
      }
    });
  }
};

using Table = std::array<TensorKernels*, c10::COMPILE_TIME_MAX_DEVICE_TYPES>;

Table& PluggedIn() {
  static CpuKernels cpu;
  static Table table = [] {
    Table kernels{};
    kernels[static_cast<size_t>(torch::kCPU)] = &cpu;
    return kernels;
  }();
  return table;
}

}  // namespace

TensorKernels& KernelsOf(const torch::Device& device) {
  TensorKernels* const kernels = PluggedIn()[static_cast<size_t>(device.type())];
  TORCH_CHECK(kernels != nullptr, "this build computes nothing on ", device,
              ": it has no kernels for it");
  return *kernels;
}

TensorKernels* PlugInKernels(torch::DeviceType type, TensorKernels* kernels) {
  return std::exchange(PluggedIn()[static_cast<size_t>(type)], kernels);
}

DType DTypeOf(const torch::Tensor& x, const char* what) {
  switch (x.scalar_type()) {
    case torch::kFloat32:
      return DType::kFloat32;
    case torch::kBFloat16:
      return DType::kBFloat16;
    case torch::kFloat16:
      return DType::kFloat16;
    default:
      TORCH_CHECK(false, what, ": dtype ", x.scalar_type(), " is not fp32, bf16 or fp16");
  }
}

}  // namespace spillway
