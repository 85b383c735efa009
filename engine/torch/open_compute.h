// From --device to a place to compute. Compute thread.
#pragma once

#include <memory>
#include <string>

#include "engine/machine/device_choice.h"
#include "engine/torch/cuda_support.h"

namespace spillway {

// The GPU of this rank: CudaSupport::Find, or NoCudaInThisBuild.
absl::StatusOr<ComputeGpu> FindComputeGpu(DType dtype);

// ChooseDevice (engine/machine/device_choice.h) among what FindComputeGpu finds.
absl::StatusOr<DeviceChoice> ChooseComputeDevice(const std::string& device, DType dtype,
                                                 uint64_t device_memory_bytes);

// Of the CPU, just that.
absl::StatusOr<std::unique_ptr<OpenedPlace>> OpenCompute(const DeviceChoice& choice);

// Budgets that were not given (0): of a GPU what it has free and of the host what it has,
// otherwise both of the host's (engine/machine/memory_limits.h), which `processes` of this machine
// share.
void ChooseBudgets(const DeviceChoice& choice, uint64_t* device_bytes, uint64_t* host_bytes,
                   int processes = 1);

// CheckGivenBudgets, where both are of the host's memory.
absl::Status CheckGivenBudgets(const DeviceChoice& choice, uint64_t device_bytes,
                               uint64_t host_bytes, int processes);

}  // namespace spillway
