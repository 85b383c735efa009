// --device, looked up on this machine.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/config/run_config.h"
#include "engine/machine/device_choice.h"

namespace spillway {

// ChooseDevice (engine/machine/device_choice.h) among the GPUs that this build can compute on.
// LibTorch is loaded only where the build has CUDA and the CPU was not asked for.
absl::StatusOr<DeviceChoice> ChooseDeviceHere(const std::string& device, DType dtype,
                                              uint64_t device_memory_bytes);

// Chooses device and --compute for `config`, says so in its values, and logs in one line what an
// `auto` device came to on a machine with a GPU, and where --compute is a slow choice.
absl::StatusOr<DeviceChoice> ResolveDevice(RunConfig* config);

}  // namespace spillway
