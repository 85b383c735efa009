#include "engine/torch/open_compute.h"

#include "engine/machine/memory_limits.h"

namespace spillway {

absl::StatusOr<ComputeGpu> FindComputeGpu(DType dtype) {
  CudaSupport* const cuda = LinkedCuda();
  return cuda == nullptr ? NoCudaInThisBuild() : cuda->Find(dtype);
}

absl::StatusOr<DeviceChoice> ChooseComputeDevice(const std::string& device, DType dtype,
                                                 uint64_t device_memory_bytes) {
  return ChooseDevice(device, device_memory_bytes, [dtype] { return FindComputeGpu(dtype); });
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

absl::Status CheckGivenBudgets(const DeviceChoice& choice, uint64_t device_bytes,
                               uint64_t host_bytes, int processes) {
  return choice.gpu ? absl::OkStatus() : CheckGivenBudgets(device_bytes, host_bytes, processes);
}

}  // namespace spillway
