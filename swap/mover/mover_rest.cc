// What the mover does while nothing else moves: loading and reading out.
// These block the mover thread.
#include <utility>

#include "io/base/check.h"
#include "io/base/status.h"
#include "swap/mover/mover.h"
#include "swap/mover/mover_internal.h"

namespace spillway {

struct SwapManager::Mover::Piece {
  int tile = 0;
  int plane = 0;
  TileLocation location;
  char* data = nullptr;
  uint64_t bytes = 0;
};

absl::Status SwapManager::Mover::TransferAll(IoOp op, std::vector<Piece>& pieces) {
  struct Shared {
    size_t left;
    absl::Status status;
  } shared{pieces.size(), absl::OkStatus()};
  std::vector<IoRequest> requests(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    IoRequest& request = requests[i];
    request.op = op;
    request.file = pieces[i].location.file;
    request.offset_bytes = pieces[i].location.offset_bytes;
    request.data = pieces[i].data;
    request.size_bytes = pieces[i].bytes;
    request.context = &shared;
    request.done = [](IoRequest& request, const absl::Status& status) {
      auto& shared = *static_cast<Shared*>(request.context);
      if (shared.status.ok()) shared.status = status;
      --shared.left;
    };
    engine_->Submit(&request);
  }
  while (shared.left > 0) engine_->Poll(absl::Seconds(1));
  return shared.status;
}

absl::Status SwapManager::Mover::LoadResident() {
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    const UnitPlacement& placement = plan_.placements[unit];
    if (plan_.HomeOnDevice(unit, 0)) {
      RETURN_IF_ERROR(LoadOntoDevice(unit));
      continue;
    }
    std::vector<Piece> pieces;
    for (int tile = 0; tile < layout_.NumTiles(unit); ++tile) {
      for (int plane = 0; plane < layout_.num_planes(); ++plane) {
        if (placement.InStore(plane)) continue;
        pieces.push_back({tile, plane, store_->CurrentTile(unit, tile, plane, plane + 1),
                          PlaneHome(unit, tile, plane), layout_.PlaneBytes(unit, tile, plane)});
      }
    }
    RETURN_IF_ERROR(TransferAll(IoOp::kRead, pieces));
    for (const Piece& piece : pieces) {
      RETURN_IF_ERROR(store_->Verify(unit, piece.tile, piece.plane, piece.data));
    }
  }
  return absl::OkStatus();
}

// A tile at a time through a tile buffer; planes that live in the host's memory straight there.
absl::Status SwapManager::Mover::LoadOntoDevice(int unit) {
  for (int tile = 0; tile < layout_.NumTiles(unit); ++tile) {
    std::vector<char*> planes;
    PointAtPlanes(unit, tile, 0, planes);
    std::vector<Piece> pieces;
    for (int plane = 0; plane < layout_.num_planes(); ++plane) {
      if (plan_.placements[unit].InStore(plane)) continue;
      pieces.push_back({tile, plane, store_->CurrentTile(unit, tile, plane, plane + 1),
                        planes[plane], layout_.PlaneBytes(unit, tile, plane)});
    }
    RETURN_IF_ERROR(TransferAll(IoOp::kRead, pieces));
    for (const Piece& piece : pieces) {
      RETURN_IF_ERROR(store_->Verify(unit, tile, piece.plane, piece.data));
    }
    CopyPlanes(unit, tile, /*to_device=*/true, planes);
    RETURN_IF_ERROR(device_->Synchronize());
  }
  return absl::OkStatus();
}

absl::Status SwapManager::Mover::ReadTile(int unit, int tile, int first_plane, int last_plane,
                                          std::vector<char*>& planes) {
  if (failed_) return error();
  const UnitPlacement& placement = plan_.placements[unit];
  PointAtPlanes(unit, tile, plan_.tile_buffers > 0 ? 0 : -1, planes);
  if (plan_.HomeOnDevice(unit, 0)) {
    CopyPlanes(unit, tile, /*to_device=*/false, planes);
    RETURN_IF_ERROR(device_->Synchronize());
  }
  std::vector<Piece> pieces;
  for (int plane = first_plane; plane < last_plane; ++plane) {
    if (!placement.InStore(plane)) continue;
    pieces.push_back({tile, plane, store_->CurrentTile(unit, tile, plane, plane + 1), planes[plane],
                      layout_.PlaneBytes(unit, tile, plane)});
  }
  RETURN_IF_ERROR(TransferAll(IoOp::kRead, pieces));
  for (const Piece& piece : pieces) {
    RETURN_IF_ERROR(store_->Verify(unit, tile, piece.plane, piece.data));
  }
  return absl::OkStatus();
}

}  // namespace spillway
