// From a run's options to who has what of its state, and what a step exchanges. Pure functions
// of values; docs/DISTRIBUTED.md has the formulas.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"
#include "engine/numeric/optimizer.h"
#include "engine/options/rank_options.h"
#include "engine/ranks/shard_grid.h"
#include "engine/ranks/sharded_step.h"
#include "swap/plan/state_layout.h"

namespace spillway {

ShardGrid GridOf(const RankOptions& options);

// "full": as --shard says it.
absl::string_view ShardName(Shard shard);

// A rank's shard of `whole`: the same units and planes, of the shard's parameters.
StateLayout ShardLayout(const StateLayout& whole, const ShardGrid& grid);

// `ranges` of every unit of `whole`, as they lie in this rank's shard.
std::vector<std::vector<ParameterRange>> ShardRanges(
    const std::vector<std::vector<ParameterRange>>& ranges, const StateLayout& whole,
    const ShardGrid& grid);

// The tensors of every unit of `whole` by what this rank's shard (of `layout`) has of them, in its
// portions.
std::vector<TensorRatios::Shard> ShardTensors(
    const std::vector<std::vector<ParameterRange>>& tensors, const StateLayout& whole,
    const StateLayout& layout, const ShardGrid& grid);

// What a rank's ShardedStep is made from. `compute`: the schedule on whole units.
// `separate_device`: they are whole in memory of its own, where every exchange costs a wait for it.
ShardedStep::Options PlanShards(const StateLayout& whole, const StepSchedule& compute,
                                const RankOptions& options, bool separate_device);

}  // namespace spillway
