// Measures a device with memory of its own for forecasts: its link, in about a tenth of a second,
// and its rates of rounding and updating. Blocks; any thread.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/numeric/optimizer_spec.h"
#include "swap/device/device.h"
#include "swap/plan/state_layout.h"
#include "swap/plan/step_clock.h"

namespace spillway {

struct LinkMeasurement {
  LinkRates alone;      // each direction while the other is idle
  LinkRates both_ways;  // while both are busy
};

// Copies between pinned memory and the device's, in the device's streams, in pieces of at most 4
// MiB (about a tile's plane), and takes the median of a few rounds by the device's notes. Uses
// `buffer_bytes` (at least 64 KiB) of each memory. Returns an error if either has too little, or if
// the device is broken. REQUIRES: nothing is under way on the device.
absl::StatusOr<LinkMeasurement> MeasureLink(Device& device, uint64_t buffer_bytes);

// Bytes of its memory a second that the device reads and writes when it rounds a tile of `layout`
// and, unless the host does it, updates it (PhaseTraffic::device_update_bytes). Uses memory for a
// tile's state, gradient and sums, with as many parameters as fit `memory_bytes`. Errors and
// REQUIRES as above; also an error if the device has no kernels for it.
absl::StatusOr<double> MeasureDeviceUpdates(Device& device, const OptimizerSpec& spec, DType dtype,
                                            const StateLayout& layout, uint64_t memory_bytes);

}  // namespace spillway
