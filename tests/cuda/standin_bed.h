// A CudaDevice over the stand-in for libcudart, for the device suite and for tests of its own.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "io/base/check.h"
#include "swap/device/cuda/cuda_device.h"
#include "tests/cuda/standin_cudart.h"
#include "tests/device/device_bed.h"

namespace spillway {

// A kernel in the stand-in's stream; an error of `body` is a fault.
inline Device::Kernel StandinKernel(std::function<cudaError_t()> body) {
  return [body = std::move(body)](void* stream) {
    const cudaError_t error = StandinCudart::Launch(static_cast<cudaStream_t>(stream), body);
    return error == cudaSuccess ? absl::OkStatus()
                                : absl::InternalError(absl::StrCat("launch: error ", error));
  };
}

class StandinBed final : public DeviceBed {
 public:
  explicit StandinBed(const StandinOptions& options, int ordinal = 0) {
    StandinCudart::Reset(options);
    auto device = CudaDevice::Open(ordinal);
    EXPECT_TRUE(device.ok()) << device.status();
    SPILLWAY_CHECK(device.ok());
    device_ = *std::move(device);
  }
  ~StandinBed() override {
    device_.reset();
    EXPECT_THAT(StandinCudart::Left(), testing::IsEmpty());
  }

  CudaDevice& device() override { return *device_; }

  Device::Kernel Run(std::function<void()> body) override {
    return StandinKernel([body = std::move(body)] {
      body();
      return cudaSuccess;
    });
  }
  Device::Kernel Add(char* data, uint64_t bytes, char amount) override {
    char* access = StandinCudart::Access(data, bytes);
    return Run([access, bytes, amount] {
      for (uint64_t i = 0; i < bytes; ++i) access[i] = static_cast<char>(access[i] + amount);
    });
  }

 private:
  std::unique_ptr<CudaDevice> device_;
};

}  // namespace spillway
