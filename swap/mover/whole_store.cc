#include "swap/mover/whole_store.h"

#include <utility>

#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

std::vector<StoredTile> TilesOf(const SwapStore& store,
                                const std::function<bool(int unit)>& wanted) {
  std::vector<StoredTile> tiles;
  for (int unit = 0; unit < store.layout().num_units(); ++unit) {
    if (!wanted(unit)) continue;
    for (int tile = 0; tile < store.layout().NumTiles(unit); ++tile) {
      tiles.push_back({&store, unit, tile});
    }
  }
  return tiles;
}

}  // namespace

absl::Status ReadTiles(
    std::vector<StoredTile> tiles, int first_plane, int last_plane,
    const std::function<absl::Status(const StoredTile& stored, const TileView& tile)>& visit) {
  if (tiles.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto window,
                   TileWindow::Create(std::move(tiles), first_plane, last_plane, kAtRestBytes));
  while (true) {
    ASSIGN_OR_RETURN(WindowTile* const tile, window->Next());
    if (tile == nullptr) return absl::OkStatus();
    const auto& [store, unit, index] = tile->stored();
    std::vector<char*> planes(store->layout().num_planes(), nullptr);
    for (int plane = tile->first_plane(); plane < tile->last_plane(); ++plane) {
      planes[plane] = tile->plane(plane);
    }
    TileView view;
    view.unit = unit;
    view.tile = index;
    view.first_parameter = store->layout().TileBegin(index);
    view.parameters = store->layout().TileParameters(unit, index);
    view.planes = planes.data();
    RETURN_IF_ERROR(visit(tile->stored(), view));
    window->Release(tile);
  }
}

absl::Status ReadStore(const SwapStore& store, int first_plane, int last_plane,
                       const std::function<absl::Status(const TileView& tile)>& visit) {
  return ReadTiles(TilesOf(store, [](int) { return true; }), first_plane, last_plane,
                   [&](const StoredTile&, const TileView& tile) { return visit(tile); });
}

uint64_t CopyMemoryBytes(const StateLayout& layout, uint64_t memory_bytes) {
  return TileWindow::MemoryBytes(memory_bytes, layout.MaxTileBytes(), layout.TotalBytes());
}

absl::Status CopyStore(const SwapStore& from, SwapStore& to, uint64_t memory_bytes) {
  SPILLWAY_CHECK(from.layout() == to.layout());
  to.TakeChecksumsInPlace(from);
  std::vector<StoredTile> tiles = TilesOf(from, [&](int unit) { return !to.IsInPlace(unit); });
  if (tiles.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const auto window,
      TileWindow::Create(std::move(tiles), 0, from.layout().num_planes(), memory_bytes, &to));
  while (true) {
    ASSIGN_OR_RETURN(WindowTile* const tile, window->Next());
    if (tile == nullptr) return window->Finish();
    window->Write(tile, to);
  }
}

}  // namespace spillway
