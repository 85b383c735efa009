// Moves the state of a commit into another store: out of a copy, onto other swap paths, or into
// the shards of other ranks.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "engine/ranks/shard_grid.h"
#include "io/file_system.h"
#include "swap/store/swap_store.h"

namespace spillway {

// kInvalidArgument where `store` holds another layout than the run's model and optimizer have.
absl::Status CheckLayout(const SwapStore& store, const StateLayout& layout);

// Fills `to`, the store of rank `grid.rank` of `grid`, from the commit in `directory`. Where that
// has the same `grid` it is this rank's own part, and of several ranks all of them are read.
absl::Status MoveState(const std::string& directory, bool resharded, const ShardGrid& grid,
                       FileSystem& files, SwapStore& to);

}  // namespace spillway
