#include "engine/ranks/gradient_sums.h"

#include <algorithm>

#include "engine/cuda/device_arithmetic.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Adds the parts in this fixed order. Rank r's part is at parts + r * part_bytes.
absl::Status AddInOrder(void* native_stream, ExchangeFormat format, const char* parts,
                        uint64_t part_bytes, int ranks, uint64_t count, float* out) {
  for (int rank = 0; rank < ranks; ++rank) {
    const char* const part = parts + rank * part_bytes;
    if (native_stream == nullptr) {
      AddExchanged(format, part, count, out, rank == 0);
    } else {
      RETURN_IF_ERROR(AddExchangedOnDevice(native_stream, format, part, count, out, rank == 0));
    }
  }
  return absl::OkStatus();
}

int LargestSize(const ShardGrid& grid) { return std::max(grid.group, grid.replicas()); }

}  // namespace

GradientSums::GradientSums(const GradientSumOptions& options, Collectives* group,
                           Collectives* replicas, TileCompute* tiles, const ExchangeStream& stream,
                           char* memory)
    : options_(options),
      group_(group),
      replicas_(replicas),
      tiles_(tiles),
      stream_(stream),
      memory_(memory) {
  SPILLWAY_CHECK((group != nullptr) == (options.grid.group > 1));
  SPILLWAY_CHECK((replicas != nullptr) == (options.grid.replicas() > 1));
  SPILLWAY_CHECK(options.format != ExchangeFormat::kFloat8 ||
                 options.bucket_parameters % kExchangeBlock == 0);
}

// First the space for a kernel's results; then one bucket from every rank and the space where it is
// rounded (the same for every rank), or, if that is larger, a tile to round.
uint64_t GradientSums::MemoryBytes(const GradientSumOptions& options) {
  const uint64_t bucket = ExchangedBytes(options.format, options.bucket_parameters);
  const uint64_t exchanged =
      LargestSize(options.grid) * bucket * (options.format == ExchangeFormat::kFloat32 ? 1 : 2);
  const uint64_t tile = options.grid.replicas() > 1 ? options.tile_parameters * sizeof(float) : 0;
  return kRoundScratchBytes + std::max(exchanged, tile);
}

absl::Status GradientSums::SumParts(Collectives& ranks, const float* parts, uint64_t count,
                                    float* out) {
  const int size = ranks.size();
  const uint64_t bucket = options_.bucket_parameters;
  const ExchangeFormat format = options_.format;
  const bool as_they_are = format == ExchangeFormat::kFloat32;
  char* const received = memory_ + kRoundScratchBytes;
  char* const encoded = received + size * ExchangedBytes(format, bucket);
  std::vector<const char*> send(size);
  std::vector<char*> receive(size);
  for (uint64_t begin = 0; begin < count; begin += bucket) {
    const uint64_t n = std::min(bucket, count - begin);
    const uint64_t bytes = ExchangedBytes(format, n);
    for (int rank = 0; rank < size; ++rank) {
      receive[rank] = received + rank * bytes;
      send[rank] = as_they_are ? reinterpret_cast<const char*>(parts + rank * count + begin)
                               : encoded + rank * bytes;
    }
    if (!as_they_are) {
      RETURN_IF_ERROR(stream_.Do([&](void* native_stream) -> absl::Status {
        for (int rank = 0; rank < size; ++rank) {
          const float* const part = parts + rank * count + begin;
          char* const to = encoded + rank * bytes;
          if (native_stream == nullptr) {
            EncodeSums(format, part, n, to);
          } else {
            RETURN_IF_ERROR(EncodeSumsOnDevice(native_stream, format, part, n, to, memory_));
          }
        }
        return absl::OkStatus();
      }));
    }
    RETURN_IF_ERROR(ranks.Exchange(send, receive, bytes));
    RETURN_IF_ERROR(stream_.Do([&](void* native_stream) {
      return AddInOrder(native_stream, format, received, bytes, size, n, out + begin);
    }));
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
    if (of_group == shard) return absl::OkStatus();
    return stream_.Copy(shard, of_group, shard_parameters * sizeof(float));
  }
  const uint64_t portion = shard_parameters / replicas_->size();
  float* const own = shard + replicas_->rank() * portion;
  RETURN_IF_ERROR(SumParts(*replicas_, of_group, portion, own));
  if (options_.norm_is_taken) RETURN_IF_ERROR(AddPortion(unit, own, portion));
  return AllGather(*replicas_, own, shard, portion * sizeof(float));
}

absl::Status GradientSums::AddPortion(int unit, const float* portion, uint64_t count) {
  if (static_cast<int>(portions_.size()) <= unit) portions_.resize(unit + 1);
  int tile = 0;
  auto* const partial = reinterpret_cast<GradientPartial*>(memory_);
  for (uint64_t begin = 0; begin < count; begin += options_.tile_parameters, ++tile) {
    const uint64_t n = std::min(options_.tile_parameters, count - begin);
    RETURN_IF_ERROR(stream_.Do([&](void* native_stream) {
      return tiles_->RoundOnDevice(native_stream, unit, tile, n, portion + begin,
                                   memory_ + kRoundScratchBytes, partial);
    }));
    portions_[unit].emplace_back();
    RETURN_IF_ERROR(stream_.Read(&portions_[unit].back(), partial, sizeof(GradientPartial)));
  }
  return absl::OkStatus();
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
