// On what a run computes: --device, against what this build and this machine have. Pure functions
// of values; who asks the machine is engine/torch/open_compute.h or, before LibTorch is loaded,
// tools/device_flag.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

enum class DeviceWish { kAuto, kCpu, kCuda };

// "auto", "cpu", "cuda". kInvalidArgument names --device and these.
absl::StatusOr<DeviceWish> ParseDeviceWish(absl::string_view text);

// A GPU that this build can compute on, with this run's dtype.
struct ComputeGpu {
  int ordinal = 0;   // among those that CUDA_VISIBLE_DEVICES leaves
  std::string name;  // "NVIDIA H200"
  uint64_t total_bytes = 0;
  // That this process may still take, its context included.
  uint64_t free_bytes = 0;
  uint64_t context_bytes = 0;  // that it has taken for that
  bool has_fp8 = false;        // it multiplies matrices of 8 bits
};

struct DeviceChoice {
  std::optional<ComputeGpu> gpu;  // none: the CPU
  std::string why_not_gpu;        // of `auto`, where it came to the CPU

  // "cpu", "cuda:0 (NVIDIA H200)": what run.json and config.resolved.json say.
  std::string Text() const;
  // For people, in one line.
  std::string Sentence() const;
  // The log line for --device auto: the chosen GPU, or why a machine with a GPU computes on the
  // CPU; "" on a machine without a GPU.
  std::string Notice(bool has_gpu) const;
};

// What of a GPU's free memory is left alone where --device-memory is not given: what comes and
// goes there (a desktop, another job's context).
uint64_t GpuBudgetBytes(uint64_t free_bytes);

// `found`: the GPU, or why there is none; not looked at for kCpu. `device_memory_bytes`: the
// budget, 0 where it was not given. kAuto never fails: what keeps it from the GPU becomes
// why_not_gpu. kCuda returns that error; kResourceExhausted that ends in exit code 3 when the
// GPU has not as much as the budget.
absl::StatusOr<DeviceChoice> ChooseDevice(DeviceWish wish, const absl::StatusOr<ComputeGpu>& found,
                                          uint64_t device_memory_bytes);

// For --compute fp8: kInvalidArgument where the GPU has no such products. The CPU has none either,
// and emulates them.
absl::Status CheckFp8(const DeviceChoice& choice);

// What a build without CUDA answers when it is asked for its GPU: kFailedPrecondition.
absl::Status NoCudaInThisBuild();

// The same for `device`: "auto", "cpu" or "cuda", or what an earlier choice's Text gave. Asks
// `find` for a GPU unless it is the CPU.
absl::StatusOr<DeviceChoice> ChooseDevice(const std::string& device, uint64_t device_memory_bytes,
                                          const std::function<absl::StatusOr<ComputeGpu>()>& find);

}  // namespace spillway
