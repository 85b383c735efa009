// The CUDA devices of this machine, and the choice of one for a rank.
//
// Reading facts opens nothing: a device's memory is first taken by ReadCudaMemory or
// CudaDevice::Open (a context, some hundred MiB). Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace spillway {

struct CudaDeviceFacts {
  int ordinal = 0;  // among those that CUDA_VISIBLE_DEVICES leaves
  std::string name;
  int capability = 0;  // 75 is 7.5
  uint64_t total_bytes = 0;
  std::string pci_address;  // "0000:17:00.0"
  int numa_node = -1;       // the host memory next to it; -1: the system does not say

  bool has_bf16() const { return capability >= 80; }
  bool has_fp8() const { return capability >= 89; }
};

struct CudaFacts {
  // 13000 is 13.0.
  int driver_version = 0;                // the newest CUDA that the driver runs
  int runtime_version = 0;               // the CUDA that this program brings
  std::vector<CudaDeviceFacts> devices;  // at least one
};

// kFailedPrecondition, with the remedy: no driver, a driver too old, no device visible.
// kUnavailable: the driver does not answer.
absl::StatusOr<CudaFacts> ReadCudaFacts();

// One device; kFailedPrecondition when there is none of this number.
absl::StatusOr<CudaDeviceFacts> ReadCudaDevice(int ordinal);

// kFailedPrecondition when the kernels do not run on it: less than Turing (7.5).
absl::Status CheckCudaDevice(const CudaDeviceFacts& device);

// kFailedPrecondition, proposing fp16, when it does not compute in bf16 (less than 8.0).
absl::Status CheckCudaBf16(const CudaDeviceFacts& device);

// The device of a rank: LOCAL_RANK's value, as launchers give it to each process of a machine, or
// null where there is none: device 0. kInvalidArgument when it is no number below `devices`.
absl::StatusOr<int> ChooseCudaOrdinal(const char* local_rank, int devices);

struct CudaMemory {
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
};

// The device's memory as the driver counts it, with the use of all processes. Makes this process's
// context on the device if there is none, which counts as used. kUnavailable when another process
// has the device in exclusive mode.
absl::StatusOr<CudaMemory> ReadCudaMemory(int ordinal);

}  // namespace spillway
