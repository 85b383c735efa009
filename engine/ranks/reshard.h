// Reads the state in the stores of several ranks as one, or distributes it to other ranks. Blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/ranks/shard_grid.h"
#include "swap/mover/swap_manager.h"
#include "swap/store/swap_store.h"

namespace spillway {

// Calls `visit` for every tile of every shard, unit by unit and in each shard by shard, with
// TileView::first_parameter relative to the whole unit and planes [first_plane, last_plane),
// verified. `shards`: of one group of `grid`, in order; `unit_parameters` without padding.
absl::Status ReadShards(const std::vector<const SwapStore*>& shards, const ShardGrid& grid,
                        const std::vector<uint64_t>& unit_parameters, int first_plane,
                        int last_plane, const SwapManager::FillTile& visit);

// Fills `to`, an empty store of the shard that `to_grid` names, from the shards of `from_grid`.
// REQUIRES: the tiles of both hold as many parameters. What `to` reads in place is not copied.
// Needs kAtRestBytes (swap/mover/whole_store.h) and a tile of memory.
absl::Status Reshard(const std::vector<const SwapStore*>& from, const ShardGrid& from_grid,
                     const std::vector<uint64_t>& unit_parameters, const ShardGrid& to_grid,
                     SwapStore& to);

}  // namespace spillway
