// Rates of the swap paths, so that tiles are distributed to them in proportion.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/machine/block_device.h"
#include "io/io_engine.h"

namespace spillway {

// Bytes a second of each path while it reads and writes at once, in the order of `paths`: found by
// `spillway tune`, else from the machine's profile, else measured now (a second per device; saved
// in the profile). Empty if they are equal or unknown: one path, all on one device, a path that
// cannot be measured, or profiles switched off (SPILLWAY_PROFILE=off). Takes up to `buffer_bytes`
// of memory meanwhile. The log names the source of the rates.
std::vector<double> SwapPathRates(const std::vector<std::string>& paths, const IoEngineOptions& io,
                                  uint64_t probe_bytes, uint64_t buffer_bytes);

// Pure: divides the rate of each device among the paths on it. `device_rates`: for each path, the
// rate of the device below it.
std::vector<double> ShareDevices(absl::Span<const BlockDevice> devices,
                                 absl::Span<const double> device_rates);

}  // namespace spillway
