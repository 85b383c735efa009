#include "engine/run/committed_weights.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/packed_parameters.h"
#include "engine/weights/master_weights.h"
#include "engine/weights/packed_cache.h"
#include "io/base/aligned_bytes.h"
#include "io/base/mutex.h"
#include "io/base/status.h"
#include "swap/store/store_reader.h"

namespace spillway {
namespace {

// One per thread that loads a model, so that neighbours do not read a tile twice.
constexpr size_t kTilesKept = 4;

class CommittedWeights : public WeightSource {
 public:
  explicit CommittedWeights(const CommittedRun* run)
      : run_(*run),
        shards_(run->shards()),
        planes_(run->store->layout().MasterPlanes()),
        format_(MasterFormat(run->store->layout(), run->state.dtype)) {
    const ModelDescription& model = run_.state.model;
    for (int unit = 0; unit < static_cast<int>(model.units.size()); ++unit) {
      for (const ParameterDescription& parameter : model.units[unit].parameters) {
        places_[parameter.name] = {unit, &parameter};
      }
    }
  }

  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override {
    for (const StateBuffer& buffer : run_.state.buffers) {
      if (buffer.name != name) continue;
      if (first > buffer.values.size() || count > buffer.values.size() - first) {
        return OtherModel(name, buffer.values.size());
      }
      std::copy_n(buffer.values.begin() + static_cast<int64_t>(first), count, out);
      return absl::OkStatus();
    }
    const auto place = places_.find(name);
    if (place == places_.end()) {
      return absl::NotFoundError(
          absl::StrCat("the commit in ", run_.directory, " has no parameter \"", name, "\""));
    }
    const auto& [unit, parameter] = place->second;
    if (first > parameter->elements || count > parameter->elements - first) {
      return OtherModel(name, parameter->elements);
    }
    if (parameter->packing.any()) {
      const auto read = [&](PackedCache::Bytes* bytes) {
        return ReadWholeMatrix(place->second, bytes);
      };
      ASSIGN_OR_RETURN(const auto packed, packed_.Get(name, read));
      UnpackElements(*parameter, packed->data(), first, count, out);
      return absl::OkStatus();
    }
    return ReadTiles(unit, parameter->offset + first, count,
                     [&](char* const* planes, uint64_t within, uint64_t n) {
                       LoadMaster(format_, planes, within, n, out);
                       out += n;
                     });
  }

 private:
  struct Place {
    int unit = 0;
    const ParameterDescription* parameter = nullptr;
  };
  struct KeptTile {
    uint64_t shard = 0;
    int unit = 0;
    int tile = 0;
    std::shared_ptr<char> data;
  };

  absl::Status OtherModel(const std::string& name, uint64_t elements) const {
    return absl::OutOfRangeError(absl::StrCat("\"", name, "\" has ", elements,
                                              " elements in the commit in ", run_.directory,
                                              ": the model is another"));
  }

  // Visits words [at, at + count) of a unit's flat range: visit(planes, first in the tile, count).
  template <typename Visit>
  absl::Status ReadTiles(int unit, uint64_t at, uint64_t count, const Visit& visit) {
    const StateLayout& layout = run_.store->layout();  // the same for all shards
    const uint64_t each = run_.grid().ShardParameters(run_.state.model.units[unit].flat_parameters);
    while (count > 0) {
      const uint64_t shard = at / each, in_shard = at % each;
      const int tile = static_cast<int>(in_shard / layout.tile_parameters());
      const uint64_t within = in_shard - layout.TileBegin(tile);
      const uint64_t n =
          std::min({count, each - in_shard, layout.TileParameters(unit, tile) - within});
      ASSIGN_OR_RETURN(const std::shared_ptr<char> data, Tile(shard, unit, tile));
      char* planes[2] = {nullptr, nullptr};
      for (int plane = 0; plane < std::min(planes_, layout.NumPlanes(unit)); ++plane) {
        planes[plane] = data.get() + layout.PlaneOffset(unit, tile, plane);
      }
      visit(planes, within, n);
      at += n;
      count -= n;
    }
    return absl::OkStatus();
  }

  // Reads all bytes of a packed matrix.
  absl::Status ReadWholeMatrix(const Place& place, PackedCache::Bytes* bytes) {
    const uint32_t word_bytes = place.parameter->packing.word_bytes;
    bytes->resize(place.parameter->words * word_bytes);
    char* to = bytes->data();
    return ReadTiles(place.unit, place.parameter->offset, place.parameter->words,
                     [&](char* const* planes, uint64_t within, uint64_t n) {
                       std::memcpy(to, planes[0] + within * word_bytes, n * word_bytes);
                       to += n * word_bytes;
                     });
  }

  absl::StatusOr<std::shared_ptr<char>> Tile(uint64_t shard, int unit, int tile) {
    {
      MutexLock lock(mutex_);
      for (const KeptTile& kept : kept_) {
        if (kept.shard == shard && kept.unit == unit && kept.tile == tile) return kept.data;
      }
    }
    AlignedBytes buffer = NewAlignedBytes(run_.store->layout().MaxTileBytes());
    RETURN_IF_ERROR(ReadStoreTile(*shards_[shard], unit, tile, 0, planes_, buffer.get()));
    std::shared_ptr<char> data = std::move(buffer);
    MutexLock lock(mutex_);
    kept_.push_back({shard, unit, tile, data});
    if (kept_.size() > kTilesKept) kept_.pop_front();
    return data;
  }

  const CommittedRun& run_;
  const std::vector<const SwapStore*> shards_;
  const int planes_;
  const WeightFormat format_;
  std::map<std::string, Place> places_;
  Mutex mutex_;
  std::deque<KeptTile> kept_ ABSL_GUARDED_BY(mutex_);
  PackedCache packed_;
};

}  // namespace

std::unique_ptr<WeightSource> NewCommittedWeights(const CommittedRun* run) {
  return std::make_unique<CommittedWeights>(run);
}

}  // namespace spillway
