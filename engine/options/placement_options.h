// Where a run computes, where its state lives and who moves and updates it. None of these but the
// device, which computes, changes a number. Plain values.
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
  uint64_t device_memory_bytes = 0;  // 0: what the machine has free, less a margin
  uint64_t host_memory_bytes = 0;
  std::vector<std::string> swap_paths;
  Offload offload_param = Offload::kAuto;
  Offload offload_optimizer = Offload::kAuto;
  Offload offload_activations = Offload::kAuto;  // kAuto: as far as device memory needs it
  UpdateChoice update = UpdateChoice::kAuto;
  // On a GPU: who updates state that does not live there. kAuto: the plan's clock decides.
  UpdateDevice update_device = UpdateDevice::kAuto;
  Recompute recompute = Recompute::kAuto;
  // Of immediate updates: the share of units that are updated in the next forward all the
  // same; none: as the plan's clock finds best.
  std::optional<double> deferred_share;
  IoEngineOptions io;
  int update_threads = 0;        // 0: chosen
  uint64_t tile_parameters = 0;  // 0: the default; tests use small tiles
};

}  // namespace spillway
