// Options for devices, placement of state, and threads. Only the choice of the compute device
// changes any number. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/io_options.h"

namespace spillway {

enum class Offload { kAuto, kNone, kCpu, kNvme };
enum class UpdateChoice { kAuto, kImmediate, kDeferred };
enum class UpdateDevice { kAuto, kCpu, kGpu };
enum class Recompute { kAuto, kAll };

struct PlacementOptions {
  // "cpu", "cuda", or "auto": a GPU where this build and this machine have one for this run.
  std::string device = "cpu";
  uint64_t device_memory_bytes = 0;  // 0: the machine's free memory less a margin
  uint64_t host_memory_bytes = 0;
  std::vector<std::string> swap_paths;
  Offload offload_param = Offload::kAuto;
  Offload offload_optimizer = Offload::kAuto;
  Offload offload_activations = Offload::kAuto;  // kAuto: as much as device memory requires
  UpdateChoice update = UpdateChoice::kAuto;
  // On a GPU: the device that updates state outside of its memory. kAuto: the plan's clock decides.
  UpdateDevice update_device = UpdateDevice::kAuto;
  Recompute recompute = Recompute::kAuto;
  // With immediate updates: the fraction of units that are nevertheless updated in the next
  // forward; none: the best by the plan's clock.
  std::optional<double> deferred_share;
  IoEngineOptions io;
  int update_threads = 0;        // 0: automatic
  uint64_t tile_parameters = 0;  // 0: the default; tests use small tiles
};

}  // namespace spillway
