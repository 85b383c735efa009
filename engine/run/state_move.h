// Moves the state of a commit into another store: out of a copy, onto other swap paths, or into
// the shards of other ranks.
#pragma once

#include "absl/status/status.h"
#include "engine/ranks/shard_grid.h"
#include "engine/run/committed_run.h"
#include "swap/store/swap_store.h"

namespace spillway {

// kInvalidArgument where `store` holds another layout than the run's model and optimizer have.
absl::Status CheckLayout(const SwapStore& store, const StateLayout& layout);

// Fills `to`, the store of rank `grid.rank` of `grid`, from a commit. Where that
// has the same `grid` it is this rank's own part, and of several ranks all of them are read. What
// `to` reads in place stays where it is.
absl::Status MoveState(const CommittedRun& from, bool resharded, const ShardGrid& grid,
                       SwapStore& to);

// What of a commit that is going to be moved stays in the model's files. Of the same ranks it is
// what is there; of others what `found`, those ranks' own parts of files, has of units that the
// commit reads from these very files. `from`: with all of its parts, where it is of others.
InPlaceUnits StaysInPlace(const CommittedRun& from, bool resharded, const InPlaceUnits& found);

}  // namespace spillway
