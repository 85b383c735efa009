// What a rank of a sharded run sends in a step, in bytes. A pure function of values;
// docs/DISTRIBUTED.md has the formulas.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/ranks/gradient_sums.h"
#include "engine/ranks/sharded_schedule.h"

namespace spillway {

// Of a training step, by every rank alike. What ranks agree on between operations (labels, losses,
// norms: 8 bytes each) comes on top.
struct CollectiveTraffic {
  uint64_t gather_bytes = 0;  // weights, to the rest of the shard group
  uint64_t sum_bytes = 0;     // gradients: their parts, and where shards have replicas their sums
  uint64_t total_bytes() const { return gather_bytes + sum_bytes; }
};

// Of one action: what this rank sends, in so many exchanges one after the other.
struct ActionTraffic {
  uint64_t bytes = 0;
  int exchanges = 0;
};

ActionTraffic GatherTraffic(const ShardGrid& grid, uint64_t whole_bytes);
// `shard_parameters`: of the unit whose sums they are.
ActionTraffic SumTraffic(const GradientSumOptions& sums, uint64_t shard_parameters);

// [action of the schedule]
std::vector<ActionTraffic> TrafficByAction(const ShardedSchedule& schedule,
                                           const GradientSumOptions& sums);

CollectiveTraffic CollectiveBytes(const ShardedSchedule& schedule, const GradientSumOptions& sums);

}  // namespace spillway
