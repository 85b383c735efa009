#include "engine/ranks/gradient_sums.h"

#include <algorithm>
#include <cstring>

#include "engine/number_formats.h"
#include "engine/update_loops.h"
#include "io/check.h"
#include "io/status.h"

namespace spillway {
namespace {

// Rank r's part is parts[r]; added in this order and no other.
template <typename Load>
void AddInOrder(int ranks, uint64_t count, Load load, float* out) {
  for (uint64_t i = 0; i < count; ++i) out[i] = load(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    for (uint64_t i = 0; i < count; ++i) out[i] = out[i] + load(rank, i);
  }
}

int LargestSize(const ShardGrid& grid) { return std::max(grid.group, grid.replicas()); }

}  // namespace

GradientSums::GradientSums(const GradientSumOptions& options, Collectives* group,
                           Collectives* replicas, TileCompute* tiles, char* memory)
    : options_(options), group_(group), replicas_(replicas), tiles_(tiles), memory_(memory) {
  SPILLWAY_CHECK((group != nullptr) == (options.grid.group > 1));
  SPILLWAY_CHECK((replicas != nullptr) == (options.grid.replicas() > 1));
}

// A bucket from every rank; where it is rounded first, the same to every rank. A tile, to round.
uint64_t GradientSums::MemoryBytes(const GradientSumOptions& options) {
  const uint64_t bucket = LargestSize(options.grid) * options.bucket_parameters;
  const uint64_t exchanged =
      options.exchange_bf16 ? 2 * bucket * sizeof(uint16_t) : bucket * sizeof(float);
  const uint64_t tile = options.grid.replicas() > 1 ? options.tile_parameters * sizeof(float) : 0;
  return std::max(exchanged, tile);
}

absl::Status GradientSums::SumParts(Collectives& ranks, const float* parts, uint64_t count,
                                    float* out) {
  const int size = ranks.size();
  const uint64_t bucket = options_.bucket_parameters;
  const uint64_t element = options_.exchange_bf16 ? sizeof(uint16_t) : sizeof(float);
  char* const received = memory_;
  char* const rounded = memory_ + size * bucket * element;
  std::vector<const char*> send(size);
  std::vector<char*> receive(size);
  for (uint64_t begin = 0; begin < count; begin += bucket) {
    const uint64_t n = std::min(bucket, count - begin);
    for (int rank = 0; rank < size; ++rank) {
      const float* part = parts + rank * count + begin;
      receive[rank] = received + rank * n * element;
      send[rank] = reinterpret_cast<const char*>(part);
      if (!options_.exchange_bf16) continue;
      char* const to = rounded + rank * n * element;
      RoundGradient(DType::kBFloat16, part, to, n);
      send[rank] = to;
    }
    RETURN_IF_ERROR(ranks.Exchange(send, receive, n * element));
    if (options_.exchange_bf16) {
      const auto* values = reinterpret_cast<const uint16_t*>(received);
      AddInOrder(
          size, n, [=](int rank, uint64_t i) { return FloatFromBFloat16(values[rank * n + i]); },
          out + begin);
    } else {
      const auto* values = reinterpret_cast<const float*>(received);
      AddInOrder(
          size, n, [=](int rank, uint64_t i) { return values[rank * n + i]; }, out + begin);
    }
  }
  return absl::OkStatus();
}

absl::Status GradientSums::Sum(int unit, const float* sums, uint64_t shard_parameters,
                               float* shard) {
  const float* of_group = sums;
  if (group_ != nullptr) {
    RETURN_IF_ERROR(SumParts(*group_, sums, shard_parameters, shard));
    of_group = shard;
  }
  if (replicas_ == nullptr) {
    if (of_group != shard) std::memcpy(shard, of_group, shard_parameters * sizeof(float));
    return absl::OkStatus();
  }
  const uint64_t portion = shard_parameters / replicas_->size();
  float* const own = shard + replicas_->rank() * portion;
  RETURN_IF_ERROR(SumParts(*replicas_, of_group, portion, own));
  AddPortion(unit, own, portion);
  return AllGather(*replicas_, own, shard, portion * sizeof(float));
}

void GradientSums::AddPortion(int unit, const float* portion, uint64_t count) {
  if (static_cast<int>(portions_.size()) <= unit) portions_.resize(unit + 1);
  int tile = 0;
  for (uint64_t begin = 0; begin < count; begin += options_.tile_parameters, ++tile) {
    const uint64_t n = std::min(options_.tile_parameters, count - begin);
    portions_[unit].push_back(tiles_->Round(unit, tile, n, portion + begin, memory_));
  }
}

GradientPartial GradientSums::TakePortions() {
  GradientPartial total;
  for (std::vector<GradientPartial>& unit : portions_) {
    for (const GradientPartial& tile : unit) {
      total.sum_of_squares += tile.sum_of_squares;
      total.finite &= tile.finite;
    }
    unit.clear();
  }
  return total;
}

}  // namespace spillway
