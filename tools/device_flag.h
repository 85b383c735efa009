// --device, looked up on this machine, for the commands that compute.
#pragma once

#include "absl/status/statusor.h"
#include "engine/config/run_config.h"
#include "engine/machine/device_choice.h"

namespace spillway {

// Chooses for `config`, says so in its values, and logs in one line what `auto` came to.
absl::StatusOr<DeviceChoice> ResolveDevice(RunConfig* config);

}  // namespace spillway
