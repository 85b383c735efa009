#include "engine/ranks/reshard.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "io/base/status.h"
#include "swap/store/store_reader.h"

namespace spillway {
namespace {

struct FreeDeleter {
  void operator()(char* data) const { std::free(data); }
};
using Buffer = std::unique_ptr<char, FreeDeleter>;

Buffer NewBuffer(uint64_t bytes) {
  return Buffer(static_cast<char*>(std::aligned_alloc(4096, std::max<uint64_t>(bytes, 4096))));
}

// One tile at a time of a sharded state, kept until another is asked for.
class ShardReader {
 public:
  ShardReader(const std::vector<const SwapStore*>& shards, const ShardGrid& grid,
              const std::vector<uint64_t>& unit_parameters)
      : shards_(shards),
        grid_(grid),
        unit_parameters_(unit_parameters),
        buffer_(NewBuffer(shards[0]->layout().MaxTileBytes())) {}

  // Copies parameters [begin, begin + count) of a unit, all planes, to where `to` has them; what
  // is behind the unit's end is zero. *generations: raised to those of what was read, by plane.
  absl::Status Copy(int unit, uint64_t begin, uint64_t count, const std::vector<char*>& to,
                    std::vector<uint64_t>* generations) {
    const uint64_t shard_parameters = grid_.ShardParameters(unit_parameters_[unit]);
    const StateLayout& layout = shards_[0]->layout();
    for (uint64_t done = 0; done < count;) {
      const uint64_t at = begin + done;
      const uint64_t shard = at / shard_parameters, in_shard = at % shard_parameters;
      const bool there = shard < shards_.size();
      const int tile = static_cast<int>(in_shard / layout.tile_parameters());
      const uint64_t in_tile = in_shard - layout.TileBegin(tile);
      const uint64_t n = std::min(
          count - done, there ? layout.TileParameters(unit, tile) - in_tile : count - done);
      if (there) RETURN_IF_ERROR(Load(static_cast<int>(shard), unit, tile));
      for (int plane = 0; plane < layout.NumPlanes(unit); ++plane) {
        const PlaneSpec& spec = layout.planes()[plane];
        char* const target = to[plane] + spec.BytesOf(done);
        if (!there) {
          std::memset(target, 0, spec.BytesOf(n));
          continue;
        }
        std::memcpy(target,
                    buffer_.get() + layout.PlaneOffset(unit, tile, plane) + spec.BytesOf(in_tile),
                    spec.BytesOf(n));
        uint64_t& generation = (*generations)[plane];
        generation = std::max(generation, shards_[shard]->CurrentGeneration(unit, tile, plane));
      }
      done += n;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Load(int shard, int unit, int tile) {
    if (shard == shard_ && unit == unit_ && tile == tile_) return absl::OkStatus();
    shard_ = -1;
    RETURN_IF_ERROR(ReadStoreTile(*shards_[shard], unit, tile, 0,
                                  shards_[shard]->layout().num_planes(), buffer_.get()));
    shard_ = shard;
    unit_ = unit;
    tile_ = tile;
    return absl::OkStatus();
  }

  const std::vector<const SwapStore*> shards_;
  const ShardGrid grid_;
  const std::vector<uint64_t> unit_parameters_;
  const Buffer buffer_;
  int shard_ = -1, unit_ = -1, tile_ = -1;
};

}  // namespace

absl::Status ReadShards(const std::vector<const SwapStore*>& shards, const ShardGrid& grid,
                        const std::vector<uint64_t>& unit_parameters, int first_plane,
                        int last_plane, const SwapManager::FillTile& visit) {
  const StateLayout& layout = shards[0]->layout();
  const Buffer buffer = NewBuffer(layout.MaxTileBytes());
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    for (size_t shard = 0; shard < shards.size(); ++shard) {
      for (int tile = 0; tile < layout.NumTiles(unit); ++tile) {
        RETURN_IF_ERROR(
            ReadStoreTile(*shards[shard], unit, tile, first_plane, last_plane, buffer.get()));
        std::vector<char*> planes(layout.num_planes(), nullptr);
        for (int plane = first_plane; plane < std::min(last_plane, layout.NumPlanes(unit));
             ++plane) {
          planes[plane] = buffer.get() + layout.PlaneOffset(unit, tile, plane);
        }
        TileView view;
        view.unit = unit;
        view.tile = tile;
        view.first_parameter =
            shard * grid.ShardParameters(unit_parameters[unit]) + layout.TileBegin(tile);
        view.parameters = layout.TileParameters(unit, tile);
        view.planes = planes.data();
        RETURN_IF_ERROR(visit(view));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Reshard(const std::vector<const SwapStore*>& from, const ShardGrid& from_grid,
                     const std::vector<uint64_t>& unit_parameters, const ShardGrid& to_grid,
                     SwapStore& to) {
  const StateLayout& layout = to.layout();
  ShardReader reader(from, from_grid, unit_parameters);
  const Buffer buffer = NewBuffer(layout.MaxTileBytes());
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    if (to.IsInPlace(unit)) continue;
    for (int tile = 0; tile < layout.NumTiles(unit); ++tile) {
      std::vector<char*> planes;
      std::memset(buffer.get(), 0, layout.TileBytes(unit, tile));  // the planes' padding
      for (int plane = 0; plane < layout.NumPlanes(unit); ++plane) {
        planes.push_back(buffer.get() + layout.PlaneOffset(unit, tile, plane));
      }
      std::vector<uint64_t> generations(layout.NumPlanes(unit), 1);
      RETURN_IF_ERROR(
          reader.Copy(unit, to_grid.ShardBegin(unit_parameters[unit]) + layout.TileBegin(tile),
                      layout.TileParameters(unit, tile), planes, &generations));
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
