// Measures what a forecast needs to know of a device with memory of its own: its link, in about a
// tenth of a second, and how fast it rounds and updates. Blocks; any thread.
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

// Copies between pinned memory and the device's, in its own streams, in pieces of at most 4 MiB
// (about a tile's plane); the median of a few rounds by the device's own notes. Takes
// `buffer_bytes` (at least 64 KiB) of each memory. A status where either has too little, or where
// the device is broken.
// REQUIRES: nothing is under way there.
absl::StatusOr<LinkMeasurement> MeasureLink(Device& device, uint64_t buffer_bytes);

// Bytes of its memory a second that the device touches in rounding a tile of `layout` and, where
// not the host does, in updating it (PhaseTraffic::device_update_bytes). Takes a tile's state,
// gradient and sums of its memory, with as many parameters as fit `memory_bytes`. Errors and
// REQUIRES likewise; an error also where the device has no kernels for it.
absl::StatusOr<double> MeasureDeviceUpdates(Device& device, const OptimizerSpec& spec, DType dtype,
                                            const StateLayout& layout, uint64_t memory_bytes);

}  // namespace spillway
