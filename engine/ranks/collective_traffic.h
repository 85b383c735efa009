// Bytes that a rank of a sharded run sends in a step. A pure function of values;
// docs/DISTRIBUTED.md has the formulas.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/ranks/gradient_sums.h"
#include "engine/ranks/sharded_schedule.h"

namespace spillway {

// Bytes that every rank sends in a training step. What ranks agree on between operations (labels,
// losses, norms: 8 bytes each) is not counted.
struct CollectiveTraffic {
  uint64_t gather_bytes = 0;  // weights, to the rest of the shard group
  uint64_t sum_bytes = 0;     // gradients: their parts, and if shards have replicas also their sums
  uint64_t total_bytes() const { return gather_bytes + sum_bytes; }
};

// Bytes that this rank sends for one action, in `exchanges` exchanges one after the other.
struct ActionTraffic {
  uint64_t bytes = 0;
  int exchanges = 0;
};

ActionTraffic GatherTraffic(const ShardGrid& grid, uint64_t whole_bytes);
// `shard_parameters`: size of a shard of the unit whose gradient is summed.
ActionTraffic SumTraffic(const GradientSumOptions& sums, uint64_t shard_parameters);

// Traffic by action: [action of the schedule].
std::vector<ActionTraffic> TrafficByAction(const ShardedSchedule& schedule,
                                           const GradientSumOptions& sums);

CollectiveTraffic CollectiveBytes(const ShardedSchedule& schedule, const GradientSumOptions& sums);

}  // namespace spillway
