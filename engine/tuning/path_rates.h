// How fast each swap path is, so that tiles can be dealt to several in proportion.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/machine/block_device.h"
#include "io/io_engine.h"

namespace spillway {

// Bytes a second of each path while it reads and writes at once, by the order of `paths`: as
// `spillway tune` found them, else from the machine's profile, else measured now (a second a
// device; kept in the profile). Empty where they are alike or unknown: one path, all on one
// device, a path that can't be measured, or profiles switched off (SPILLWAY_PROFILE=off).
// Takes up to `buffer_bytes` of memory meanwhile. Says in the log what it went by.
std::vector<double> SwapPathRates(const std::vector<std::string>& paths, const IoEngineOptions& io,
                                  uint64_t probe_bytes, uint64_t buffer_bytes);

// Pure: what each path gets of its device, which paths on one device share.
// `device_rates`: of the device below each path.
std::vector<double> ShareDevices(absl::Span<const BlockDevice> devices,
                                 absl::Span<const double> device_rates);

}  // namespace spillway
