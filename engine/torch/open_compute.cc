#include "engine/torch/open_compute.h"

#include "absl/strings/match.h"
#include "engine/machine/memory_limits.h"
#include "io/base/status.h"

namespace spillway {
namespace {

absl::StatusOr<ComputeGpu> FindGpu(DType dtype) {
  CudaSupport* const cuda = LinkedCuda();
  if (cuda == nullptr) {
    return absl::FailedPreconditionError(
        "this build has no CUDA: build the preset cuda (tools/build cuda)");
  }
  return cuda->Find(dtype);
}

}  // namespace

absl::StatusOr<DeviceChoice> ChooseComputeDevice(const std::string& device, DType dtype,
                                                 uint64_t device_memory_bytes) {
  const bool resolved = absl::StartsWith(device, "cuda:");
  ASSIGN_OR_RETURN(const DeviceWish wish, ParseDeviceWish(resolved ? "cuda" : device));
  if (wish == DeviceWish::kCpu) return DeviceChoice{};
  return ChooseDevice(wish, FindGpu(dtype), resolved ? 0 : device_memory_bytes);
}

absl::StatusOr<std::unique_ptr<OpenedPlace>> OpenCompute(const DeviceChoice& choice) {
  if (!choice.gpu) return std::make_unique<OpenedPlace>();
  return LinkedCuda()->Open(*choice.gpu);
}

void ChooseBudgets(const DeviceChoice& choice, uint64_t* device_bytes, uint64_t* host_bytes,
                   int processes) {
  if (!choice.gpu) return ChooseBudgets(device_bytes, host_bytes, processes);
  if (*device_bytes == 0) *device_bytes = GpuBudgetBytes(choice.gpu->free_bytes);
  if (*host_bytes == 0) *host_bytes = SpendableMemoryBytes(processes);
}

}  // namespace spillway
