// A state that lies in the stores of several ranks: read as one, or dealt anew to others. Blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/ranks/shard_grid.h"
#include "swap/mover/swap_manager.h"
#include "swap/store/swap_store.h"

namespace spillway {

// Calls `visit` for every tile of every shard, units in order and in each the shards, with
// TileView::first_parameter of the whole unit; planes [first_plane, last_plane), verified.
// `shards`: of one group of `grid`, in order; `unit_parameters` without padding.
absl::Status ReadShards(const std::vector<const SwapStore*>& shards, const ShardGrid& grid,
                        const std::vector<uint64_t>& unit_parameters, int first_plane,
                        int last_plane, const SwapManager::FillTile& visit);

// Fills `to`, an empty store of the shard that `to_grid` names, from the shards of `from_grid`.
// The tiles of both hold as many parameters. What `to` reads in place stays there. In kAtRestBytes
// of memory (swap/mover/whole_store.h) and a tile.
absl::Status Reshard(const std::vector<const SwapStore*>& from, const ShardGrid& from_grid,
                     const std::vector<uint64_t>& unit_parameters, const ShardGrid& to_grid,
                     SwapStore& to);

}  // namespace spillway
