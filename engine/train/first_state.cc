#include "engine/train/first_state.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/progress.h"
#include "engine/base/stop_signal.h"
#include "engine/numeric/optimizer_state.h"
#include "engine/ranks/replica_weights.h"
#include "engine/ranks/shard_plan.h"
#include "engine/weights/master_weights.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// First weights read at once by each worker: 256 KiB in fp32.
constexpr uint64_t kMostReadParameters = 64 * 1024;
// Bytes read at once by all workers together, if whole units are in a device's memory.
constexpr uint64_t kDeviceReadBytes = 512 * 1024;

// Reads this rank's shards of the first weights.
class ShardWeights {
 public:
  ShardWeights(const RunContext& context, WeightSource* weights)
      : model_(context.model),
        dtype_(context.options.dtype),
        format_(WeightFormatOf(context.options.optimizer, dtype_)),
        grid_(GridOf(context.options)),
        weights_(weights) {}

  // Reads parameters [begin, begin + count) of the shard of a unit.
  absl::Status Read(int unit, uint64_t begin, uint64_t count, float* out) const {
    const UnitDescription& described = model_.units[unit];
    const uint64_t first = grid_.ShardBegin(described.flat_parameters) + begin;
    for (const ParameterPiece& piece : PiecesOf(described, first, count)) {
      const absl::Status read =
          weights_->Read(described.parameters[piece.parameter].name, piece.first_element,
                         piece.count, out + piece.offset);
      // An error of a disk. Among ranks kUnavailable means that others are gone.
      if (absl::IsUnavailable(read)) return absl::AbortedError(read.message());
      RETURN_IF_ERROR(read);
    }
    return absl::OkStatus();
  }

  // Stores values in the tile that contains them.
  absl::Status Store(const TileView& tile, uint64_t begin, uint64_t count,
                     const float* values) const {
    const UnitDescription& unit = model_.units[tile.unit];
    const uint64_t in_tile = begin - tile.first_parameter;
    const bool has_rest = HasResidual(format_) || format_ == WeightFormat::kFloat16;
    char* const master[] = {tile.planes[0], has_rest ? tile.planes[1] : nullptr};
    for (const ParameterPiece& piece :
         PiecesOf(unit, grid_.ShardBegin(unit.flat_parameters) + begin, count)) {
      const ParameterDescription& parameter = unit.parameters[piece.parameter];
      if (parameter.packing.any()) {
        StoreWords(dtype_, values + piece.offset, in_tile + piece.offset, piece.count,
                   tile.planes[0]);
        continue;
      }
      if (StoreMaster(format_, values + piece.offset, in_tile + piece.offset, piece.count,
                      master)) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat("the initial weights of \"", parameter.name,
                                                     "\" hold a value that is not finite in ",
                                                     std::string(DTypeName(dtype_))));
    }
    return absl::OkStatus();
  }

  const ShardGrid& grid() const { return grid_; }

 private:
  const ModelDescription& model_;
  const DType dtype_;
  const WeightFormat format_;
  const ShardGrid grid_;
  WeightSource* const weights_;
};

// Every rank reads all buffers, since they are small.
absl::Status ReadBuffers(StepCompute& compute, WeightSource* weights) {
  std::vector<StateBuffer> buffers = compute.Buffers();
  for (StateBuffer& buffer : buffers) {
    RETURN_IF_ERROR(weights->Read(buffer.name, 0, buffer.values.size(), buffer.values.data()));
  }
  return compute.SetBuffers(buffers);
}

}  // namespace

absl::Status WriteFirstState(const RunContext& context, const RunSetup& setup,
                             WeightSource* weights) {
  RETURN_IF_ERROR(AgreeAll(context.ranks.world, ReadBuffers(*context.compute, weights)));
  const StateLayout& layout = setup.plan().layout;
  const ShardWeights shard(context, weights);
  // Units that are read in place are not written, so they are removed from what replicas send.
  std::vector<UnitLayout> units = layout.units();
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    if (setup.store() != nullptr && setup.store()->IsInPlace(unit)) units[unit].parameters = 0;
  }
  const StateLayout written_layout(std::move(units), layout.planes(),
                                   layout.gradient_bytes_per_parameter(), layout.tile_parameters());
  int64_t tiles = 0;
  for (int unit = 0; unit < layout.num_units(); ++unit) tiles += written_layout.NumTiles(unit);
  Progress progress("writing the initial state", tiles);
  // Uses the memory of a step's computation and exchanges, which is idle until the first step. With
  // a separate device they use less host memory, which is reserved until steps need it.
  std::optional<ReplicaWeights> replicas;
  std::vector<char> room;
  if (context.ranks.replicas != nullptr && weights->reads_files()) {
    Arena& whole = *setup.whole_arena();
    if (context.device != nullptr) {
      room.resize(kDeviceReadBytes + sizeof(double) * shard.grid().size);
    }
    replicas.emplace(written_layout, shard.grid(), context.ranks.host_replicas,
                     room.empty() ? whole.data() : room.data(),
                     room.empty() ? whole.size_bytes() : room.size(),
                     [&](int unit, uint64_t begin, uint64_t count, float* out) {
                       return shard.Read(unit, begin, count, out);
                     });
  }
  const auto fill = [&](const TileView& tile) -> absl::Status {
    if (replicas) {
      RETURN_IF_ERROR(
          replicas->TakeStretch(tile.unit, tile.first_parameter, tile.parameters,
                                [&](uint64_t begin, uint64_t count, const float* values) {
                                  return shard.Store(tile, begin, count, values);
                                }));
    } else {
      std::vector<float> values(std::min(tile.parameters, kMostReadParameters));
      for (uint64_t done = 0; done < tile.parameters; done += values.size()) {
        const uint64_t begin = tile.first_parameter + done;
        const uint64_t count = std::min<uint64_t>(values.size(), tile.parameters - done);
        RETURN_IF_ERROR(shard.Read(tile.unit, begin, count, values.data()));
        RETURN_IF_ERROR(shard.Store(tile, begin, count, values.data()));
      }
    }
    return StopSignal::received() ? absl::CancelledError("stopped by a signal") : absl::OkStatus();
  };
  const absl::Status written = setup.manager()->Initialize(
      fill, [&](double fraction) { progress.Update(std::llround(fraction * tiles)); });
  if (replicas && !written.ok()) replicas->Stop(written);
  return written;
}

}  // namespace spillway
