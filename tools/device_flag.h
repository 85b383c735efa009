// Resolves --device on this machine.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/config/run_config.h"
#include "engine/machine/device_choice.h"

namespace spillway {

// ChooseDevice (engine/machine/device_choice.h) among the GPUs that this build supports. LibTorch
// is loaded only if the build has CUDA and the CPU was not requested.
absl::StatusOr<DeviceChoice> ChooseDeviceHere(const std::string& device, DType dtype,
                                              uint64_t device_memory_bytes);

// Chooses device and --compute for `config`, and sets its values. Logs in one line the result of an
// `auto` device on a machine with a GPU, and a slow choice of --compute.
absl::StatusOr<DeviceChoice> ResolveDevice(RunConfig* config);

}  // namespace spillway
