// The device suite on a GPU: what the stand-in for libcudart cannot show. A program of the preset
// cuda, cuda_device_check; exit code 0: all held. No test runs it, since it needs a GPU.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "io/base/format_bytes.h"
#include "swap/device/cuda/cuda_device.h"
#include "swap/device/cuda/cuda_facts.h"
#include "tests/device/device_suite.h"

cudaError_t AddBytesOnStream(char* data, uint64_t bytes, char amount, cudaStream_t stream);

namespace spillway {
namespace {

int ordinal = 0;

absl::Status Launched(cudaError_t error) {
  return error == cudaSuccess ? absl::OkStatus() : absl::InternalError(cudaGetErrorString(error));
}

class GpuBed final : public DeviceBed {
 public:
  explicit GpuBed(std::unique_ptr<CudaDevice> device) : device_(std::move(device)) {}
  Device& device() override { return *device_; }

  Device::Kernel Run(std::function<void()> body) override {
    return [body = std::move(body)](void* stream) {
      auto* copy = new std::function<void()>(body);
      return Launched(cudaLaunchHostFunc(
          static_cast<cudaStream_t>(stream),
          [](void* data) {
            const std::unique_ptr<std::function<void()>> body(
                static_cast<std::function<void()>*>(data));
            (*body)();
          },
          copy));
    };
  }
  Device::Kernel Add(char* data, uint64_t bytes, char amount) override {
    return [=](void* stream) {
      return Launched(AddBytesOnStream(data, bytes, amount, static_cast<cudaStream_t>(stream)));
    };
  }

 private:
  std::unique_ptr<CudaDevice> device_;
};

std::unique_ptr<DeviceBed> MakeGpuBed() {
  auto device = CudaDevice::Open(ordinal);
  if (device.ok()) return std::make_unique<GpuBed>(*std::move(device));
  ADD_FAILURE() << device.status();
  return nullptr;
}

// Says on stdout which device it is, and takes that of LOCAL_RANK.
absl::Status ChooseDevice() {
  const auto facts = ReadCudaFacts();
  if (!facts.ok()) return facts.status();
  const auto chosen = ChooseCudaOrdinal(std::getenv("LOCAL_RANK"), facts->devices.size());
  if (!chosen.ok()) return chosen.status();
  ordinal = *chosen;
  const CudaDeviceFacts& device = facts->devices[ordinal];
  const auto memory = ReadCudaMemory(ordinal);
  if (!memory.ok()) return memory.status();
  std::printf("%s, device %d of %zu at %s: capability %d.%d, %s of %s free\n", device.name.c_str(),
              ordinal, facts->devices.size(), device.pci_address.c_str(), device.capability / 10,
              device.capability % 10, FormatBytes(memory->free_bytes).c_str(),
              FormatBytes(memory->total_bytes).c_str());
  return CheckCudaDevice(device);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Gpu, DeviceConformance,
                         testing::Values(DeviceBedMaker{MakeGpuBed, "Here"}), BedName);

}  // namespace spillway

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const absl::Status status = spillway::ChooseDevice(); !status.ok()) {
    std::fprintf(stderr, "cuda_device_check: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  return RUN_ALL_TESTS();
}
