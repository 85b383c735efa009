// Opens the device of --device. Compute thread.
#pragma once

#include <memory>
#include <string>

#include "engine/machine/device_choice.h"
#include "engine/torch/cuda_support.h"

namespace spillway {

// The GPU of this rank: CudaSupport::Find, or NoCudaInThisBuild.
absl::StatusOr<ComputeGpu> FindComputeGpu(DType dtype);

// ChooseDevice (engine/machine/device_choice.h) with the result of FindComputeGpu.
absl::StatusOr<DeviceChoice> ChooseComputeDevice(const std::string& device, DType dtype,
                                                 uint64_t device_memory_bytes);

// Opens the chosen GPU, or the CPU.
absl::StatusOr<std::unique_ptr<OpenedPlace>> OpenCompute(const DeviceChoice& choice);

// Sets budgets that are 0: for a GPU its free memory and the host's available memory; otherwise
// parts of host memory (engine/machine/memory_limits.h), which `processes` share.
void ChooseBudgets(const DeviceChoice& choice, uint64_t* device_bytes, uint64_t* host_bytes,
                   int processes = 1);

// CheckGivenBudgets, if both budgets are host memory.
absl::Status CheckGivenBudgets(const DeviceChoice& choice, uint64_t device_bytes,
                               uint64_t host_bytes, int processes);

}  // namespace spillway
