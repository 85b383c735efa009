// Derives from a run's options how its state is divided and what a step exchanges. Pure functions
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

// The value of --shard: "full", ...
absl::string_view ShardName(Shard shard);

// A rank's shard of `whole`: the same units and planes, with the shard's number of parameters.
StateLayout ShardLayout(const StateLayout& whole, const ShardGrid& grid);

// The parts of `ranges` of every unit of `whole` that lie in this rank's shard.
std::vector<std::vector<ParameterRange>> ShardRanges(
    const std::vector<std::vector<ParameterRange>>& ranges, const StateLayout& whole,
    const ShardGrid& grid);

// For every unit of `whole`: the part of each tensor that lies in this rank's shard (of `layout`),
// by portion.
std::vector<TensorRatios::Shard> ShardTensors(
    const std::vector<std::vector<ParameterRange>>& tensors, const StateLayout& whole,
    const StateLayout& layout, const ShardGrid& grid);

// Options of a rank's ShardedStep. `compute`: the schedule on whole units. `separate_device`: whole
// units are in the memory of a separate device, which every exchange must wait for.
ShardedStep::Options PlanShards(const StateLayout& whole, const StepSchedule& compute,
                                const RankOptions& options, bool separate_device);

}  // namespace spillway
