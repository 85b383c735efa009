// Options for the device, the memory budgets, and the placement, movement and update of state. Only
// the device affects numbers. Plain values.
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
  // "cpu", "cuda", or "auto": a GPU if the build and the machine have one that supports the run.
  std::string device = "cpu";
  // Hard limits of one rank; 0: the machine's free memory less a margin.
  uint64_t device_memory_bytes = 0;
  uint64_t host_memory_bytes = 0;
  std::vector<std::string> swap_paths;  // parents of swap directories; empty: OUTPUT, for commits
  Offload offload_param = Offload::kAuto;
  Offload offload_optimizer = Offload::kAuto;
  Offload offload_activations = Offload::kAuto;  // kAuto: only if device memory is short
  UpdateChoice update = UpdateChoice::kAuto;
  // With a GPU: the device that updates state that is not on the GPU. kAuto: the faster one in the
  // simulated step.
  UpdateDevice update_device = UpdateDevice::kAuto;
  Recompute recompute = Recompute::kAuto;
  // With immediate updates: the share of units, 0 to 1, that are nevertheless updated in the next
  // forward. None: the fastest in the simulated step.
  std::optional<double> deferred_share;
  IoEngineOptions io;
  int update_threads = 0;        // update workers; 0: chosen from the free cores
  uint64_t tile_parameters = 0;  // parameters of a tile; 0: the default; tests use small tiles
};

}  // namespace spillway
