// Moves the state of a commit to another store: from a copy, to other swap paths, or to the shards
// of other ranks.
#pragma once

#include "absl/status/status.h"
#include "engine/ranks/shard_grid.h"
#include "engine/run/committed_run.h"
#include "swap/store/swap_store.h"

namespace spillway {

// kInvalidArgument if `store` has another layout than the run's model and optimizer.
absl::Status CheckLayout(const SwapStore& store, const StateLayout& layout);

// Fills `to`, the store of rank `grid.rank` of `grid`, from a commit: from this rank's own part if
// the commit has the same `grid`, otherwise from all parts. What `to` reads in place is not moved.
absl::Status MoveState(const CommittedRun& from, bool resharded, const ShardGrid& grid,
                       SwapStore& to);

// The units of a moved commit that stay in the model's files. For the same ranks they are the
// commit's; for others the units of `found`, the new ranks' parts of files, that the commit reads
// from the same files. `from`: with all parts, if the ranks differ.
InPlaceUnits StaysInPlace(const CommittedRun& from, bool resharded, const InPlaceUnits& found);

}  // namespace spillway
