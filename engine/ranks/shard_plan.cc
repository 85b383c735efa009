#include "engine/ranks/shard_plan.h"

#include <algorithm>

#include "io/base/check.h"
#include "io/base/enum_name.h"

namespace spillway {

ShardGrid GridOf(const RankOptions& options) {
  SPILLWAY_CHECK(options.ranks % options.shard_group_size == 0);
  return {options.ranks, options.shard_group_size, options.rank};
}

absl::string_view ShardName(Shard shard) {
  return EnumName(shard, {"none", "optimizer", "gradients", "full", "hybrid"});
}

StateLayout ShardLayout(const StateLayout& whole, const ShardGrid& grid) {
  if (grid.size == 1) return whole;
  std::vector<UnitLayout> units = whole.units();
  for (UnitLayout& unit : units) unit.parameters = grid.ShardParameters(unit.parameters);
  return StateLayout(std::move(units), whole.planes(), whole.gradient_bytes_per_parameter(),
                     whole.tile_parameters());
}

std::vector<std::vector<ParameterRange>> ShardRanges(
    const std::vector<std::vector<ParameterRange>>& ranges, const StateLayout& whole,
    const ShardGrid& grid) {
  if (grid.size == 1) return ranges;
  std::vector<std::vector<ParameterRange>> shards(ranges.size());
  for (size_t unit = 0; unit < ranges.size(); ++unit) {
    const uint64_t parameters = whole.units()[unit].parameters;
    const uint64_t begin = grid.ShardBegin(parameters);
    const uint64_t end = begin + grid.ShardParameters(parameters);
    for (const ParameterRange& range : ranges[unit]) {
      const uint64_t first = std::max(range.begin, begin), last = std::min(range.end, end);
      if (first < last) shards[unit].push_back({first - begin, last - begin});
    }
  }
  return shards;
}

std::vector<TensorRatios::Shard> ShardTensors(
    const std::vector<std::vector<ParameterRange>>& tensors, const StateLayout& whole,
    const StateLayout& layout, const ShardGrid& grid) {
  std::vector<TensorRatios::Shard> shards(tensors.size());
  for (size_t unit = 0; unit < tensors.size(); ++unit) {
    const uint64_t parameters = whole.units()[unit].parameters;
    TensorRatios::Shard& shard = shards[unit];
    shard.tiles = layout.NumTiles(static_cast<int>(unit));
    const uint64_t count = layout.units()[unit].parameters;
    const uint64_t begin = grid.size == 1 ? 0 : grid.ShardBegin(parameters);
    if (grid.size > 1) shard.portion_parameters = grid.PortionParameters(parameters);
    for (const ParameterRange& tensor : tensors[unit]) {
      const auto here = [&](uint64_t position) {
        return std::min(std::max(position, begin) - begin, count);
      };
      shard.tensors.push_back({here(tensor.begin), here(tensor.end)});
      shard.parameters.push_back(tensor.end - tensor.begin);
    }
  }
  return shards;
}

ShardedStep::Options PlanShards(const StateLayout& whole, const StepSchedule& compute,
                                const RankOptions& options, bool separate_device) {
  ShardedStep::Options shards;
  shards.grid = GridOf(options);
  std::vector<uint64_t> unit_parameters;
  for (const UnitLayout& unit : whole.units()) {
    unit_parameters.push_back(shards.grid.UnitParameters(unit.parameters));
    shards.unit_parameters.push_back(unit.parameters);
    shards.shard_parameters.push_back(shards.grid.ShardParameters(unit.parameters));
  }
  shards.weight_bytes = whole.planes()[0].bytes;
  // If nothing is divided, gathering is a copy of this rank's own weights.
  const bool again = options.shard != Shard::kOptimizer && options.shard != Shard::kGradients;
  shards.schedule = BuildShardedSchedule(
      compute, again ? GatheredWeights::kForOneUse : GatheredWeights::kForOneStep, unit_parameters,
      shards.weight_bytes);
  shards.sums.grid = shards.grid;
  shards.sums.format = options.communication_format;
  shards.sums.tile_parameters = whole.tile_parameters();
  shards.sums.norm_is_taken = compute.update == UpdateMode::kDeferred;
  if (separate_device) {
    shards.sums.bucket_parameters =
        std::max(shards.sums.bucket_parameters,
                 kDeviceBucketsParameters / shards.grid.size / kExchangeBlock * kExchangeBlock);
  }
  // No larger than the largest shard: small models need no more memory than they have gradients.
  const uint64_t largest =
      *std::max_element(shards.shard_parameters.begin(), shards.shard_parameters.end());
  shards.sums.bucket_parameters = std::min(shards.sums.bucket_parameters, largest);
  return shards;
}

}  // namespace spillway
