// Measures this machine for forecasts: disks, in about a second, and the optimizer's workers, in a
// few hundredths. Blocks; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/estimate/step_forecast.h"
#include "engine/numeric/optimizer_spec.h"
#include "io/io_engine.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

// Bytes that a probe moves each way for a plan: those of a step, from 1 to 256 MiB.
uint64_t ProbeBytesFor(const StepTraffic& traffic);

struct DiskProbe {
  std::vector<std::string> paths;  // existing folders, used together as by a store
  IoEngineOptions io;
  uint64_t probe_bytes = 0;   // moved each way, fewer where the disk is slow
  uint64_t buffer_bytes = 0;  // memory that it may use
};

// Writes, overwrites, reads and does both in a file of its own in every path. The files are
// unlinked as soon as they are open, so that nothing remains if the process dies. An error if a
// path cannot be written to, or has no room.
absl::StatusOr<DiskRates> MeasureDisk(const DiskProbe& probe);

// Bytes of memory a second that `workers` together read and write when they round and update tiles
// of `layout` (PhaseTraffic::update_bytes), with checksums if the state is in the store. Uses as
// many tiles as `memory_bytes` hold, at least one per worker, so that few remain in the cache.
double MeasureUpdates(const OptimizerSpec& spec, DType dtype, const StateLayout& layout,
                      bool in_store, int workers, uint64_t memory_bytes);

// Rates at which `workers` together verify checksums, and copy, in memory larger than the caches:
// `memory_bytes` of it, or as much as a block per worker needs.
struct CheckRates {
  double check_bytes_per_second = 0;
  double copy_bytes_per_second = 0;
};
CheckRates MeasureChecks(int workers, uint64_t memory_bytes);

}  // namespace spillway
