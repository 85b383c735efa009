// Reads a store at rest, tile by tile, without a manager: inspect, export, moving a
// run to other swap paths.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "swap/swap_store.h"
#include "swap/tile_compute.h"

namespace spillway {

// Calls `visit` for every tile in order with planes [first_plane, last_plane), each
// verified; the others are null. Blocks; one tile of memory.
absl::Status ReadStore(const SwapStore& store, int first_plane, int last_plane,
                       const std::function<absl::Status(const TileView& tile)>& visit);

// Writes every tile of `from` into `to`, which has the same layout and is empty.
absl::Status CopyStore(const SwapStore& from, SwapStore& to);

}  // namespace spillway
