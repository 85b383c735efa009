// Reads and copies stores at rest, tile by tile, without a manager: to check a commit or export it,
// and to bring a run's state to other swap paths.
//
// Disks are kept busy, all at once (swap/mover/tile_window.h), in kAtRestBytes of memory, or two
// tiles where those are more. Blocking; nothing is in flight any more when a status comes back.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "swap/device/tile_compute.h"
#include "swap/mover/tile_window.h"
#include "swap/store/swap_store.h"

namespace spillway {

// What an engine has in flight, and the few tiles that are checked meanwhile.
inline constexpr uint64_t kAtRestBytes = uint64_t{40} << 20;
// The same beside training: drives stay as good as busy while nobody else needs them, and who does
// has most of their queues.
inline constexpr uint64_t kBesideTrainingBytes = uint64_t{16} << 20;

// Calls `visit` for every tile in order with planes [first_plane, last_plane), each verified; the
// others are null. The first tile in order that cannot be read, or that has other bytes than were
// written, ends it; all tiles before it have been visited.
absl::Status ReadStore(const SwapStore& store, int first_plane, int last_plane,
                       const std::function<absl::Status(const TileView& tile)>& visit);

// The same for tiles of several stores of one layout's planes, in the order given.
absl::Status ReadTiles(
    std::vector<StoredTile> tiles, int first_plane, int last_plane,
    const std::function<absl::Status(const StoredTile& stored, const TileView& tile)>& visit);

// Writes every tile of `from` into `to`, which has the same layout and is empty, but for those that
// `to` reads in place, as `from` does. In `memory_bytes` (or what CopyMemoryBytes says).
absl::Status CopyStore(const SwapStore& from, SwapStore& to, uint64_t memory_bytes = kAtRestBytes);
uint64_t CopyMemoryBytes(const StateLayout& layout, uint64_t memory_bytes);

}  // namespace spillway
