// Measures what a forecast needs to know of the machine: disks, in about a second, and the
// optimizer's workers, in a few hundredths. Blocks; any thread.
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

// How much a probe moves each way for a plan: what a step does, from 1 to 256 MiB.
uint64_t ProbeBytesFor(const StepTraffic& traffic);

struct DiskProbe {
  std::vector<std::string> paths;  // existing folders; together, as a store uses them
  IoEngineOptions io;
  uint64_t probe_bytes = 0;   // moved each way, fewer where the disk is slow
  uint64_t buffer_bytes = 0;  // of memory it may take
};

// Writes, overwrites, reads and does both in a file of its own in every path. The files lose
// their names as soon as they are open, so that nothing stays when the process ends or dies.
// A status where a path can't be written to, or has no room.
absl::StatusOr<DiskRates> MeasureDisk(const DiskProbe& probe);

// Bytes of memory a second that `workers` together touch in rounding and updating tiles of
// `layout` (PhaseTraffic::update_bytes), checksums of what is in the store included. Works on
// as many tiles as `memory_bytes` hold, at least one a worker: few of them stay in the cache.
double MeasureUpdates(const OptimizerSpec& spec, DType dtype, const StateLayout& layout,
                      bool in_store, int workers, uint64_t memory_bytes);

// Bytes a second that `workers` together check by their checksums, and copy, in memory that no
// cache holds: `memory_bytes` of it, or as much as a block a worker takes.
struct CheckRates {
  double check_bytes_per_second = 0;
  double copy_bytes_per_second = 0;
};
CheckRates MeasureChecks(int workers, uint64_t memory_bytes);

}  // namespace spillway
