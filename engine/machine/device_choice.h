// Chooses the device that a run computes on, from --device and the capabilities of build and
// machine. Pure functions of values; the machine is probed in engine/torch/open_compute.h or,
// before LibTorch is loaded, in tools/device_flag.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

enum class DeviceWish { kAuto, kCpu, kCuda };

// Parses "auto", "cpu", "cuda". kInvalidArgument names --device and these.
absl::StatusOr<DeviceWish> ParseDeviceWish(absl::string_view text);

// A GPU that this build can use with this run's dtype.
struct ComputeGpu {
  int ordinal = 0;   // among those visible by CUDA_VISIBLE_DEVICES
  std::string name;  // "NVIDIA H200"
  uint64_t total_bytes = 0;
  // Memory that this process may still allocate, its context included.
  uint64_t free_bytes = 0;
  uint64_t context_bytes = 0;  // allocated for the context
  bool has_fp8 = false;        // supports 8-bit matrix products
};

struct DeviceChoice {
  std::optional<ComputeGpu> gpu;  // none: the CPU
  std::string why_not_gpu;        // why `auto` chose the CPU

  // "cpu", "cuda:0 (NVIDIA H200)": recorded in run.json and config.resolved.json.
  std::string Text() const;
  // The choice in one line for people.
  std::string Sentence() const;
  // The log line for --device auto: the chosen GPU, or why a machine with a GPU computes on the
  // CPU; "" on a machine without a GPU.
  std::string Notice(bool has_gpu) const;
};

// The default of --device-memory: `free_bytes` less a margin for other users of the GPU (a desktop,
// another job's context).
uint64_t GpuBudgetBytes(uint64_t free_bytes);

// `found`: the GPU, or why there is none; ignored for kCpu. `device_memory_bytes`: the budget, 0 if
// not given. kAuto never fails: the reason against the GPU becomes why_not_gpu. kCuda returns that
// reason; kResourceExhausted (exit code 3) if the GPU has less than the budget.
absl::StatusOr<DeviceChoice> ChooseDevice(DeviceWish wish, const absl::StatusOr<ComputeGpu>& found,
                                          uint64_t device_memory_bytes);

// For --compute fp8: kInvalidArgument if the GPU has no such products. The CPU emulates them.
absl::Status CheckFp8(const DeviceChoice& choice);

// The error of a build without CUDA when it is asked for a GPU: kFailedPrecondition.
absl::Status NoCudaInThisBuild();

// The choice for `device`: "auto", "cpu", "cuda", or the Text of an earlier choice. Calls `find`
// for a GPU unless it is the CPU.
absl::StatusOr<DeviceChoice> ChooseDevice(const std::string& device, uint64_t device_memory_bytes,
                                          const std::function<absl::StatusOr<ComputeGpu>()>& find);

}  // namespace spillway
