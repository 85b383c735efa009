#include "engine/machine/device_choice.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/flag_value.h"
#include "engine/machine/memory_limits.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"

namespace spillway {
namespace {

absl::Status CheckSize(const ComputeGpu& gpu, uint64_t device_memory_bytes) {
  if (device_memory_bytes <= gpu.free_bytes) return absl::OkStatus();
  return DoesNotFitError(
      absl::StrCat("--device-memory ", FormatBytes(device_memory_bytes), " is more than GPU ",
                   gpu.ordinal, " (", gpu.name, ") has: ", FormatBytes(gpu.free_bytes),
                   " are free of ", FormatBytes(gpu.total_bytes), "; give at most --device-memory ",
                   FormatBytesForFlag(GpuBudgetBytes(gpu.free_bytes)),
                   ", or end what else runs on it (nvidia-smi)"));
}

}  // namespace

absl::StatusOr<DeviceWish> ParseDeviceWish(absl::string_view text) {
  return ChoiceFlag<DeviceWish>(
      "--device", std::string(text),
      {{"auto", DeviceWish::kAuto}, {"cpu", DeviceWish::kCpu}, {"cuda", DeviceWish::kCuda}});
}

std::string DeviceChoice::Text() const {
  return gpu ? absl::StrCat("cuda:", gpu->ordinal, " (", gpu->name, ")") : "cpu";
}

std::string DeviceChoice::Sentence() const {
  if (!gpu) {
    return absl::StrCat("computing on the CPU", why_not_gpu.empty() ? "" : ": ", why_not_gpu);
  }
  return absl::StrCat("computing on GPU ", gpu->ordinal, ": ", gpu->name, ", ",
                      FormatBytes(gpu->free_bytes), " free of ", FormatBytes(gpu->total_bytes));
}

std::string DeviceChoice::Notice(bool has_gpu) const { return gpu || has_gpu ? Sentence() : ""; }

uint64_t GpuBudgetBytes(uint64_t free_bytes) {
  // Whole MiB, so that a message can name it to the byte.
  return (free_bytes - free_bytes / 20) / kMiB * kMiB;
}

absl::Status CheckFp8(const DeviceChoice& choice) {
  if (!choice.gpu || choice.gpu->has_fp8) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--compute fp8: GPU ", choice.gpu->ordinal, " (", choice.gpu->name,
                   ") does not multiply in 8 bits (compute capability 8.9 and above do: Ada, "
                   "Hopper, Blackwell): leave --compute out"));
}

absl::StatusOr<DeviceChoice> ChooseDevice(DeviceWish wish, const absl::StatusOr<ComputeGpu>& found,
                                          uint64_t device_memory_bytes) {
  DeviceChoice choice;
  if (wish == DeviceWish::kCpu) return choice;
  const absl::Status status = found.ok() ? CheckSize(*found, device_memory_bytes) : found.status();
  if (status.ok()) {
    choice.gpu = *found;
  } else if (wish == DeviceWish::kAuto) {
    choice.why_not_gpu = std::string(status.message());
  } else {
    return found.ok() ? status : Annotate(status, "--device cuda");
  }
  return choice;
}

absl::Status NoCudaInThisBuild() {
  return absl::FailedPreconditionError(
      "this build has no CUDA: build the preset cuda (tools/build cuda)");
}

absl::StatusOr<DeviceChoice> ChooseDevice(const std::string& device, uint64_t device_memory_bytes,
                                          const std::function<absl::StatusOr<ComputeGpu>()>& find) {
  const bool resolved = absl::StartsWith(device, "cuda:");
  ASSIGN_OR_RETURN(const DeviceWish wish, ParseDeviceWish(resolved ? "cuda" : device));
  if (wish == DeviceWish::kCpu) return DeviceChoice{};
  return ChooseDevice(wish, find(), resolved ? 0 : device_memory_bytes);
}

}  // namespace spillway
