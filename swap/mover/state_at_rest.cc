#include "swap/mover/state_at_rest.h"

#include <utility>

#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {

absl::Status StateAtRest::LoadResident(bool only_in_place) {
  SPILLWAY_CHECK(context_.engine->pending() == 0);
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    const bool in_place = context_.store != nullptr && context_.store->IsInPlace(unit);
    if (only_in_place && !in_place) continue;
    // On a separate device a tile at a time goes through a tile buffer.
    const bool on_device = plan_.HomeOnDevice(unit, 0);
    std::vector<Piece> pieces;
    for (int tile = 0; tile < layout_.NumTiles(unit); ++tile) {
      std::vector<char*> planes;
      tile_buffers_->PointAtPlanes(unit, tile, on_device ? 0 : -1, planes);
      for (int plane = 0; plane < layout_.NumPlanes(unit); ++plane) {
        if (plan_.placements[unit].InStore(plane)) continue;
        pieces.push_back({tile, plane, planes[plane]});
      }
      if (!on_device) continue;
      RETURN_IF_ERROR(Read(unit, pieces));
      pieces.clear();
      device_tiles_->CopyPlanes(unit, tile, /*to_device=*/true, planes);
      RETURN_IF_ERROR(context_.lane->Synchronize());
    }
    RETURN_IF_ERROR(Read(unit, pieces));
  }
  return absl::OkStatus();
}

absl::Status StateAtRest::ReadTile(int unit, int tile, int first_plane, int last_plane,
                                   std::vector<char*>& planes) {
  tile_buffers_->PointAtPlanes(unit, tile, plan_.tile_buffers > 0 ? 0 : -1, planes);
  if (plan_.HomeOnDevice(unit, 0)) {
    device_tiles_->CopyPlanes(unit, tile, /*to_device=*/false, planes);
    RETURN_IF_ERROR(context_.lane->Synchronize());
  }
  std::vector<Piece> pieces;
  for (int plane = first_plane; plane < last_plane; ++plane) {
    if (!plan_.placements[unit].InStore(plane)) continue;
    pieces.push_back({tile, plane, planes[plane]});
  }
  return Read(unit, pieces);
}

// All at once, and verified.
absl::Status StateAtRest::Read(int unit, const std::vector<Piece>& pieces) {
  if (context_.store != nullptr && context_.store->IsInPlace(unit)) {
    return ReadInPlace(unit, pieces);
  }
  struct Shared {
    size_t left;
    absl::Status status;
  } shared{pieces.size(), absl::OkStatus()};
  std::vector<IoRequest> requests(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto& [tile, plane, data] = pieces[i];
    SPILLWAY_CHECK(data != nullptr);
    const TileLocation location = context_.store->CurrentTile(unit, tile, plane, plane + 1);
    IoRequest& request = requests[i];
    request.op = IoOp::kRead;
    request.file = location.file;
    request.offset_bytes = location.offset_bytes;
    request.data = data;
    request.size_bytes = layout_.PlaneBytes(unit, tile, plane);
    request.context = &shared;
    request.done = [](IoRequest& request, const absl::Status& status) {
      auto& shared = *static_cast<Shared*>(request.context);
      if (shared.status.ok()) shared.status = status;
      --shared.left;
    };
    context_.engine->Submit(&request);
  }
  while (shared.left > 0) context_.engine->Poll(absl::Seconds(1));
  RETURN_IF_ERROR(shared.status);
  for (const Piece& piece : pieces) {
    RETURN_IF_ERROR(context_.store->Verify(unit, piece.tile, piece.plane, piece.data));
  }
  return absl::OkStatus();
}

// As many at once as there is memory for.
absl::Status StateAtRest::ReadInPlace(int unit, const std::vector<Piece>& pieces) {
  struct Tile {
    InPlaceRead* read = nullptr;
    bool arrived = false;
    absl::Status status;
  };
  std::vector<Tile> tiles(pieces.size());
  absl::Status status;
  size_t begun = 0, ended = 0;
  while (ended < begun || (begun < pieces.size() && status.ok())) {
    for (; begun < pieces.size() && status.ok() && in_place_->HasRoom(); ++begun) {
      tiles[begun].read = in_place_->Begin(
          *context_.store, unit, pieces[begun].tile, pieces[begun].data, IoClass::kDemand,
          [](void* context, const absl::Status& status) {
            auto& tile = *static_cast<Tile*>(context);
            tile.arrived = true;
            tile.status = status;
          },
          &tiles[begun]);
    }
    context_.engine->Poll(absl::Seconds(1));
    for (size_t i = 0; i < begun; ++i) {
      Tile& tile = tiles[i];
      if (!std::exchange(tile.arrived, false)) continue;
      if (tile.status.ok()) {
        tile.read->Place();
        if (!tile.read->complete() && status.ok()) {
          in_place_->Continue(tile.read);
          continue;
        }
      }
      if (tile.status.ok() && tile.read->complete()) {
        tile.status = context_.store->Verify(unit, pieces[i].tile, 0, pieces[i].data);
      }
      if (status.ok()) status = tile.status;
      in_place_->End(tile.read);
      ++ended;
    }
  }
  return status;
}

}  // namespace spillway
