// Reads one tile of a store at rest, without a manager; swap/mover/whole_store.h reads all tiles.
#pragma once

#include "absl/status/status.h"
#include "swap/store/swap_store.h"

namespace spillway {

// Reads planes [first_plane, last_plane) of one tile, each verified, into `buffer` as they lie
// in the layout (StateLayout::PlaneOffset). `buffer` is aligned to 4096 and holds TileBytes.
// Several threads may read at once.
absl::Status ReadStoreTile(const SwapStore& store, int unit, int tile, int first_plane,
                           int last_plane, char* buffer);

}  // namespace spillway
