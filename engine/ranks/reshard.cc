#include "engine/ranks/reshard.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "io/base/aligned_bytes.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "swap/mover/whole_store.h"

namespace spillway {
namespace {

// Neighbouring parameters of a unit that lie in one tile of one shard; or beyond the last shard,
// where all values are zero.
struct Piece {
  uint64_t shard = 0;
  int tile = 0;
  uint64_t in_tile = 0;  // offset in the tile
  uint64_t parameters = 0;
};

// Reads a state that is sharded as `grid` says, or a part of it, from beginning to end.
class ShardReader {
 public:
  ShardReader(const std::vector<const SwapStore*>& shards, const ShardGrid& grid,
              const std::vector<uint64_t>& unit_parameters)
      : shards_(shards), grid_(grid), unit_parameters_(unit_parameters) {}

  // Announces a Copy of parameters [begin, begin + count) of a unit. All these calls come before
  // the first Copy, in the order of the copies.
  void Expect(int unit, uint64_t begin, uint64_t count) {
    for (const Piece& piece : PiecesOf(unit, begin, count)) {
      if (piece.shard == shards_.size()) continue;
      const StoredTile tile = {shards_[piece.shard], unit, piece.tile};
      if (tiles_.empty() || !Same(tiles_.back(), tile)) tiles_.push_back(tile);
    }
  }

  // Copies all planes of those parameters to `to`; values beyond the unit's end are zero. Raises
  // *generations, by plane, to those of what was read.
  absl::Status Copy(int unit, uint64_t begin, uint64_t count, const std::vector<char*>& to,
                    std::vector<uint64_t>* generations) {
    const StateLayout& layout = shards_[0]->layout();
    uint64_t done = 0;
    for (const Piece& piece : PiecesOf(unit, begin, count)) {
      const bool there = piece.shard < shards_.size();
      if (there) RETURN_IF_ERROR(Load({shards_[piece.shard], unit, piece.tile}));
      for (int plane = 0; plane < layout.NumPlanes(unit); ++plane) {
        const PlaneSpec& spec = layout.planes()[plane];
        char* const target = to[plane] + spec.BytesOf(done);
        if (!there) {
          std::memset(target, 0, spec.BytesOf(piece.parameters));
          continue;
        }
        std::memcpy(target, tile_->plane(plane) + spec.BytesOf(piece.in_tile),
                    spec.BytesOf(piece.parameters));
        uint64_t& generation = (*generations)[plane];
        generation =
            std::max(generation, shards_[piece.shard]->CurrentGeneration(unit, piece.tile, plane));
      }
      done += piece.parameters;
    }
    return absl::OkStatus();
  }

 private:
  std::vector<Piece> PiecesOf(int unit, uint64_t begin, uint64_t count) const {
    const uint64_t shard_parameters = grid_.ShardParameters(unit_parameters_[unit]);
    const StateLayout& layout = shards_[0]->layout();
    std::vector<Piece> pieces;
    for (uint64_t done = 0; done < count; done += pieces.back().parameters) {
      Piece& piece = pieces.emplace_back();
      const uint64_t in_shard = (begin + done) % shard_parameters;
      piece.shard = std::min<uint64_t>((begin + done) / shard_parameters, shards_.size());
      piece.tile = static_cast<int>(in_shard / layout.tile_parameters());
      piece.in_tile = in_shard - layout.TileBegin(piece.tile);
      piece.parameters = count - done;
      if (piece.shard == shards_.size()) continue;
      piece.parameters =
          std::min(piece.parameters, layout.TileParameters(unit, piece.tile) - piece.in_tile);
    }
    return pieces;
  }

  static bool Same(const StoredTile& a, const StoredTile& b) {
    return a.store == b.store && a.unit == b.unit && a.tile == b.tile;
  }

  absl::Status Load(const StoredTile& wanted) {
    if (window_ == nullptr) {
      ASSIGN_OR_RETURN(window_,
                       TileWindow::Create(std::move(tiles_), 0, shards_[0]->layout().num_planes(),
                                          kAtRestBytes));
    }
    if (tile_ != nullptr && Same(tile_->stored(), wanted)) return absl::OkStatus();
    if (tile_ != nullptr) window_->Release(std::exchange(tile_, nullptr));
    ASSIGN_OR_RETURN(tile_, window_->Next());
    SPILLWAY_CHECK(tile_ != nullptr && Same(tile_->stored(), wanted));
    return absl::OkStatus();
  }

  const std::vector<const SwapStore*> shards_;
  const ShardGrid grid_;
  const std::vector<uint64_t> unit_parameters_;
  std::vector<StoredTile> tiles_;
  std::unique_ptr<TileWindow> window_;
  WindowTile* tile_ = nullptr;
};

}  // namespace

absl::Status ReadShards(const std::vector<const SwapStore*>& shards, const ShardGrid& grid,
                        const std::vector<uint64_t>& unit_parameters, int first_plane,
                        int last_plane, const SwapManager::FillTile& visit) {
  const StateLayout& layout = shards[0]->layout();
  std::vector<StoredTile> tiles;
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    for (const SwapStore* shard : shards) {
      for (int tile = 0; tile < layout.NumTiles(unit); ++tile) tiles.push_back({shard, unit, tile});
    }
  }
  return ReadTiles(std::move(tiles), first_plane, last_plane,
                   [&](const StoredTile& stored, const TileView& tile) {
                     const uint64_t shard =
                         std::find(shards.begin(), shards.end(), stored.store) - shards.begin();
                     TileView of_unit = tile;
                     of_unit.first_parameter +=
                         shard * grid.ShardParameters(unit_parameters[stored.unit]);
                     return visit(of_unit);
                   });
}

absl::Status Reshard(const std::vector<const SwapStore*>& from, const ShardGrid& from_grid,
                     const std::vector<uint64_t>& unit_parameters, const ShardGrid& to_grid,
                     SwapStore& to) {
  const StateLayout& layout = to.layout();
  ShardReader reader(from, from_grid, unit_parameters);
  const auto begin_of = [&](int unit, int tile) {
    return to_grid.ShardBegin(unit_parameters[unit]) + layout.TileBegin(tile);
  };
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    for (int tile = 0; tile < layout.NumTiles(unit) && !to.IsInPlace(unit); ++tile) {
      reader.Expect(unit, begin_of(unit, tile), layout.TileParameters(unit, tile));
    }
  }
  const AlignedBytes buffer = NewAlignedBytes(layout.MaxTileBytes());
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    if (to.IsInPlace(unit)) continue;
    for (int tile = 0; tile < layout.NumTiles(unit); ++tile) {
      std::vector<char*> planes;
      std::memset(buffer.get(), 0, layout.TileBytes(unit, tile));  // the padding of the planes
      for (int plane = 0; plane < layout.NumPlanes(unit); ++plane) {
        planes.push_back(buffer.get() + layout.PlaneOffset(unit, tile, plane));
      }
      std::vector<uint64_t> generations(layout.NumPlanes(unit), 1);
      RETURN_IF_ERROR(reader.Copy(unit, begin_of(unit, tile), layout.TileParameters(unit, tile),
                                  planes, &generations));
      const TileLocation at = to.WritableTile(unit, tile, 0);
      RETURN_IF_ERROR(
          at.file->WriteAt(at.offset_bytes, buffer.get(), layout.TileBytes(unit, tile)));
      for (int plane = 0; plane < layout.NumPlanes(unit); ++plane) {
        const uint64_t checksum = Checksum(to.PlaneIdentity(unit, tile, plane, generations[plane]),
                                           planes[plane], layout.PlaneBytes(unit, tile, plane));
        to.RecordWrite(unit, tile, plane, {&checksum, 1}, generations[plane]);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace spillway
