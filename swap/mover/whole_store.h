// Reads and copies stores at rest, tile by tile, without a manager: to check a commit or export it,
// and to bring a run's state to other swap paths.
//
// Keeps all disks busy at once (swap/mover/tile_window.h), in kAtRestBytes of memory, or that of
// two tiles if they take more. The functions block; no transfer is in flight when they return.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "swap/device/tile_compute.h"
#include "swap/mover/tile_window.h"
#include "swap/store/swap_store.h"

namespace spillway {

// Memory for the transfers that an engine has in flight, and for the few tiles that are checked
// meanwhile.
inline constexpr uint64_t kAtRestBytes = uint64_t{40} << 20;
// The memory for copies beside training: enough to keep drives almost busy while training does not
// need them, and so little that training has most of their queues when it does.
inline constexpr uint64_t kBesideTrainingBytes = uint64_t{16} << 20;

// Calls `visit` for every tile in order with planes [first_plane, last_plane), each verified; the
// others are null. Stops at the first tile in order that cannot be read or has other bytes than
// were written; all tiles before it have been visited.
absl::Status ReadStore(const SwapStore& store, int first_plane, int last_plane,
                       const std::function<absl::Status(const TileView& tile)>& visit);

// Calls `visit` likewise for tiles of several stores with the same planes, in the order given.
absl::Status ReadTiles(
    std::vector<StoredTile> tiles, int first_plane, int last_plane,
    const std::function<absl::Status(const StoredTile& stored, const TileView& tile)>& visit);

// Writes every tile of `from` into `to`, which has the same layout and is empty; tiles that both
// read in place are left out. Takes CopyMemoryBytes(memory_bytes) of memory.
absl::Status CopyStore(const SwapStore& from, SwapStore& to, uint64_t memory_bytes = kAtRestBytes);
uint64_t CopyMemoryBytes(const StateLayout& layout, uint64_t memory_bytes);

}  // namespace spillway
