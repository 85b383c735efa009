#include "swap/store/store_reader.h"

#include <cstdlib>
#include <memory>
#include <vector>

#include "io/base/status.h"

namespace spillway {
namespace {

struct FreeDeleter {
  void operator()(char* data) const { std::free(data); }
};

}  // namespace

absl::Status ReadStoreTile(const SwapStore& store, int unit, int tile, int first_plane,
                           int last_plane, char* buffer) {
  const StateLayout& layout = store.layout();
  for (int plane = first_plane; plane < last_plane; ++plane) {
    char* const data = buffer + layout.PlaneOffset(unit, tile, plane);
    const TileLocation at = store.CurrentTile(unit, tile, plane, plane + 1);
    RETURN_IF_ERROR(at.file->ReadAt(at.offset_bytes, data, layout.PlaneBytes(unit, tile, plane)));
    RETURN_IF_ERROR(store.Verify(unit, tile, plane, data));
  }
  return absl::OkStatus();
}

absl::Status ReadStore(const SwapStore& store, int first_plane, int last_plane,
                       const std::function<absl::Status(const TileView& tile)>& visit) {
  const StateLayout& layout = store.layout();
  if (layout.MaxTileBytes() == 0) return absl::OkStatus();
  std::unique_ptr<char, FreeDeleter> buffer(
      static_cast<char*>(std::aligned_alloc(4096, layout.MaxTileBytes())));
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    for (int tile = 0; tile < layout.NumTiles(unit); ++tile) {
      std::vector<char*> planes(layout.num_planes(), nullptr);
      RETURN_IF_ERROR(ReadStoreTile(store, unit, tile, first_plane, last_plane, buffer.get()));
      for (int plane = first_plane; plane < last_plane; ++plane) {
        planes[plane] = buffer.get() + layout.PlaneOffset(unit, tile, plane);
      }
      TileView view;
      view.unit = unit;
      view.tile = tile;
      view.first_parameter = layout.TileBegin(tile);
      view.parameters = layout.TileParameters(unit, tile);
      view.planes = planes.data();
      RETURN_IF_ERROR(visit(view));
    }
  }
  return absl::OkStatus();
}

absl::Status CopyStore(const SwapStore& from, SwapStore& to) {
  const StateLayout& layout = from.layout();
  return ReadStore(from, 0, layout.num_planes(), [&](const TileView& tile) -> absl::Status {
    // The planes of a tile lie side by side in memory as on storage.
    const TileLocation at = to.WritableTile(tile.unit, tile.tile, 0);
    RETURN_IF_ERROR(
        at.file->WriteAt(at.offset_bytes, tile.planes[0], layout.TileBytes(tile.unit, tile.tile)));
    for (int plane = 0; plane < layout.num_planes(); ++plane) {
      const uint64_t generation = from.CurrentGeneration(tile.unit, tile.tile, plane);
      const uint64_t checksum =
          Checksum(to.PlaneIdentity(tile.unit, tile.tile, plane, generation), tile.planes[plane],
                   layout.PlaneBytes(tile.unit, tile.tile, plane));
      to.RecordWrite(tile.unit, tile.tile, plane, {&checksum, 1}, generation);
    }
    return absl::OkStatus();
  });
}

}  // namespace spillway
