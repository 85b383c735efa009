// Reads a store at rest, tile by tile, without a manager: inspect, export, moving a
// run to other swap paths.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "swap/device/tile_compute.h"
#include "swap/store/swap_store.h"

namespace spillway {

// Reads planes [first_plane, last_plane) of one tile, each verified, into `buffer` as they lie
// in the layout (StateLayout::PlaneOffset). `buffer` is aligned to 4096 and holds TileBytes.
// Several threads may read at once.
absl::Status ReadStoreTile(const SwapStore& store, int unit, int tile, int first_plane,
                           int last_plane, char* buffer);

// Calls `visit` for every tile in order with planes [first_plane, last_plane), each
// verified; the others are null. Blocks; one tile of memory.
absl::Status ReadStore(const SwapStore& store, int first_plane, int last_plane,
                       const std::function<absl::Status(const TileView& tile)>& visit);

// Writes every tile of `from` into `to`, which has the same layout and is empty, but for those that
// `to` reads in place, as `from` does.
absl::Status CopyStore(const SwapStore& from, SwapStore& to);

}  // namespace spillway
