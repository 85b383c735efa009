// Kernels that note what they are asked for and compute nothing: for tensors on LibTorch's meta
// device, which have no data.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/numeric/gradient_loops.h"
#include "engine/torch/tensor_kernels.h"

namespace spillway {

// Plugged in for as long as it lives.
class RecordingKernels : public TensorKernels {
 public:
  explicit RecordingKernels(torch::DeviceType type)
      : type_(type), before_(PlugInKernels(type, this)) {}
  ~RecordingKernels() override { PlugInKernels(type_, before_); }

  void AccumulateGradient(const torch::Tensor& gradient, float* sums, bool first) override {
    calls.push_back(absl::StrCat(first ? "first " : "add ", gradient.numel()));
    addresses.push_back(sums);
  }
  void AccumulateRounded(const torch::Tensor& gradient, void* sums, bool first) override {
    calls.push_back(absl::StrCat(first ? "first rounded " : "add rounded ", gradient.numel()));
    addresses.push_back(sums);
  }
  void FillZero(void* data, uint64_t bytes) override {
    calls.push_back(absl::StrCat("zero ", bytes));
    addresses.push_back(data);
  }
  void Dropout(const DropoutKey& key, double p, const std::vector<int64_t>& samples,
               const torch::Tensor& in, const torch::Tensor& out) override {
    calls.push_back(absl::StrCat("dropout seed ", key.seed, " step ", key.step, " unit ", key.unit,
                                 " site ", key.site, " samples ", absl::StrJoin(samples, ","),
                                 " of ", in.numel()));
  }

  std::vector<std::string> calls;
  std::vector<const void*> addresses;  // of sums

 private:
  const torch::DeviceType type_;
  TensorKernels* const before_;
};

}  // namespace spillway
