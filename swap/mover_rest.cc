// What the mover does while nothing else moves: loading, committing, reading out.
// These block the mover thread.
#include <utility>

#include "io/check.h"
#include "io/status.h"
#include "swap/mover.h"
#include "swap/mover_internal.h"

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

absl::Status SwapManager::Mover::Commit(absl::string_view manifest_path,
                                        const CommitRecord& record) {
  if (failed_) return error();
  SPILLWAY_CHECK(store_ != nullptr && passes_.empty() && tasks_running_ == 0);
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    std::vector<Piece> pieces;
    for (int tile = 0; tile < layout_.NumTiles(unit); ++tile) {
      for (int plane = 0; plane < layout_.num_planes(); ++plane) {
        if (plan_.placements[unit].InStore(plane)) continue;
        if (!store_->IsStale(unit, tile, plane)) continue;
        pieces.push_back({tile, plane, store_->WritableTile(unit, tile, plane),
                          PlaneHome(unit, tile, plane), layout_.PlaneBytes(unit, tile, plane)});
      }
    }
    if (absl::Status status = TransferAll(IoOp::kWrite, pieces); !status.ok()) {
      Fail(status);
      return status;
    }
    for (const Piece& piece : pieces) {
      const uint64_t checksum =
          Checksum(store_->PlaneIdentity(unit, piece.tile, piece.plane, record.step), piece.data,
                   piece.bytes);
      store_->RecordWrite(unit, piece.tile, piece.plane, {&checksum, 1}, record.step);
    }
  }
  absl::Status status = store_->Commit(manifest_path, record);
  if (!status.ok()) Fail(status);
  return status;
}

absl::Status SwapManager::Mover::ReadTile(int unit, int tile, int first_plane, int last_plane,
                                          std::vector<char*>& planes) {
  if (failed_) return error();
  const UnitPlacement& placement = plan_.placements[unit];
  PointAtPlanes(unit, tile, 0, planes);
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
