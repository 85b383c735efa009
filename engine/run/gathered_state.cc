#include "engine/run/gathered_state.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "io/base/status.h"

namespace spillway {
namespace {

// Request of rank 0: a range of planes, or the end.
constexpr int64_t kEnd = -1;

}  // namespace

GatheredState::GatheredState(
    const ShardGrid& grid, const StateLayout& layout, std::vector<uint64_t> unit_parameters,
    Collectives* world, std::function<absl::Status(int, int, const SwapManager::FillTile&)> own)
    : grid_(grid),
      layout_(layout),
      unit_parameters_(std::move(unit_parameters)),
      world_(world),
      own_(std::move(own)) {}

absl::Status GatheredState::Read(int first_plane, int last_plane,
                                 const SwapManager::FillTile& visit) {
  RETURN_IF_ERROR(AllGatherCount(*world_, first_plane * 256 + last_plane).status());
  // Runs to the end even if the visitor fails: the others send all that was requested.
  absl::Status visited;
  const auto visit_while_ok = [&](const TileView& tile) {
    if (visited.ok()) visited = visit(tile);
    return absl::OkStatus();
  };
  int unit = 0;    // unit whose tiles are visited
  broken_ = true;  // until the others have sent everything
  RETURN_IF_ERROR(own_(first_plane, last_plane, [&](const TileView& tile) -> absl::Status {
    for (; unit < tile.unit; ++unit) {
      RETURN_IF_ERROR(VisitOthers(unit, first_plane, last_plane, visit_while_ok));
    }
    return visit_while_ok(tile);
  }));
  for (; unit < layout_.num_units(); ++unit) {
    RETURN_IF_ERROR(VisitOthers(unit, first_plane, last_plane, visit_while_ok));
  }
  broken_ = false;
  return visited;
}

absl::Status GatheredState::VisitOthers(int unit, int first_plane, int last_plane,
                                        const SwapManager::FillTile& visit) {
  std::vector<char> buffer(layout_.MaxTileBytes() + 64);
  char* const aligned = buffer.data() + (64 - reinterpret_cast<uintptr_t>(buffer.data()) % 64) % 64;
  for (int shard = 1; shard < grid_.group; ++shard) {
    for (int tile = 0; tile < layout_.NumTiles(unit); ++tile) {
      std::vector<char*> planes(layout_.num_planes(), nullptr);
      uint64_t bytes = 0;
      const int end_plane = std::min(last_plane, layout_.NumPlanes(unit));
      for (int plane = first_plane; plane < end_plane; ++plane) {
        planes[plane] = aligned + bytes;
        bytes += layout_.PlaneBytes(unit, tile, plane);
      }
      if (bytes > 0) RETURN_IF_ERROR(world_->Receive(shard, aligned, bytes));
      TileView view;
      view.unit = unit;
      view.tile = tile;
      view.first_parameter =
          shard * grid_.ShardParameters(unit_parameters_[unit]) + layout_.TileBegin(tile);
      view.parameters = layout_.TileParameters(unit, tile);
      view.planes = planes.data();
      RETURN_IF_ERROR(visit(view));
    }
  }
  return absl::OkStatus();
}

absl::Status GatheredState::End(const absl::Status& status) {
  if (broken_) {
    // Other ranks may still be sending.
    world_->Abort();
    return status;
  }
  RETURN_IF_ERROR(AllGatherCount(*world_, kEnd).status());
  return Agree(*world_, status);
}

absl::Status GatheredState::Serve() {
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> asked, AllGatherCount(*world_, 0));
    if (asked[0] == kEnd) return Agree(*world_, absl::OkStatus());
    // The other groups have the same shards.
    if (grid_.replica() > 0) continue;
    const absl::Status sent =
        SendTiles(static_cast<int>(asked[0] / 256), static_cast<int>(asked[0] % 256));
    if (!sent.ok()) {
      // The first rank waits for more tiles.
      world_->Abort();
      return sent;
    }
  }
}

absl::Status GatheredState::SendTiles(int first_plane, int last_plane) {
  std::vector<char> packed;
  return own_(first_plane, last_plane, [&](const TileView& tile) {
    packed.clear();
    const int end_plane = std::min(last_plane, layout_.NumPlanes(tile.unit));
    for (int plane = first_plane; plane < end_plane; ++plane) {
      const char* const from = tile.planes[plane];
      packed.insert(packed.end(), from, from + layout_.PlaneBytes(tile.unit, tile.tile, plane));
    }
    return packed.empty() ? absl::OkStatus() : world_->Send(0, packed.data(), packed.size());
  });
}

}  // namespace spillway
