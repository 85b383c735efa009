// Gathers the state of all ranks, tile by tile, on the first one, for an export after training.
// Streams: a rank holds at most one tile of another's.
#pragma once

#include "absl/status/status.h"
#include "engine/ranks/collectives.h"
#include "engine/ranks/shard_grid.h"
#include "swap/mover/swap_manager.h"

namespace spillway {

class GatheredState {
 public:
  // `own` reads this rank's shard, whose layout is `layout`; units have `unit_parameters` without
  // padding. `world` and the data of `own` outlive the object.
  GatheredState(const ShardGrid& grid, const StateLayout& layout,
                std::vector<uint64_t> unit_parameters, Collectives* world,
                std::function<absl::Status(int first_plane, int last_plane,
                                           const SwapManager::FillTile& visit)>
                    own);

  // On rank 0: calls `visit` as StateSource::read does, with tiles of whole units. Between calls
  // the other ranks wait in Serve; End releases them. Every rank gets the result.
  absl::Status Read(int first_plane, int last_plane, const SwapManager::FillTile& visit);
  absl::Status End(const absl::Status& status);

  // On every other rank: answers Read until End, and returns the status passed to End.
  absl::Status Serve();

 private:
  absl::Status SendTiles(int first_plane, int last_plane);
  // Visits the tiles of `unit` on the other ranks of the first group.
  absl::Status VisitOthers(int unit, int first_plane, int last_plane,
                           const SwapManager::FillTile& visit);

  const ShardGrid grid_;
  const StateLayout layout_;
  const std::vector<uint64_t> unit_parameters_;
  Collectives* const world_;
  const std::function<absl::Status(int, int, const SwapManager::FillTile&)> own_;
  bool broken_ = false;  // a Read failed midway
};

}  // namespace spillway
