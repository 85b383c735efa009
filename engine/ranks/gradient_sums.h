// A unit's gradient over all ranks: every rank's fp32 sums go in, the shard of their sum comes
// out. Summed by us in rank order, so no bit depends on the size of the buckets, or, at one
// number of ranks, on who has which shard (but for hybrid sharding, which sums in two stages).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/numeric/exchange_format.h"
#include "engine/ranks/collectives.h"
#include "engine/ranks/exchange_stream.h"
#include "engine/ranks/shard_grid.h"
#include "swap/device/tile_compute.h"

namespace spillway {

// Parameters of a shard that are exchanged at once.
inline constexpr uint64_t kDefaultBucketParameters = 256 * 1024;
// Where the exchange is a device's: of all shards together, where that is more. 32 MiB in fp32.
inline constexpr uint64_t kDeviceBucketsParameters = 8 * 1024 * 1024;

struct GradientSumOptions {
  ShardGrid grid;
  uint64_t bucket_parameters = kDefaultBucketParameters;
  // In which each rank's sums are sent. kFloat8: buckets are multiples of kExchangeBlock.
  ExchangeFormat format = ExchangeFormat::kFloat32;
  uint64_t tile_parameters = 0;  // of the state's layout, for the portions' squares
  // TakePortions is called in every step, since updates wait for the norm. False: nothing is
  // rounded or kept for it.
  bool norm_is_taken = true;
};

class GradientSums {
 public:
  // `group`: this rank's shard group, null where it is alone; `replicas`: the ranks of the other
  // groups with the same shard and this one, likewise. `tiles` rounds, for the norm. `memory`:
  // MemoryBytes of the stream's memory, as all that is summed is. All outlive it.
  GradientSums(const GradientSumOptions& options, Collectives* group, Collectives* replicas,
               TileCompute* tiles, const ExchangeStream& stream, char* memory);

  static uint64_t MemoryBytes(const GradientSumOptions& options);

  // `sums`: of the whole unit, `shard_parameters` times the group's size. `shard`: this rank's
  // shard of the sum over all ranks.
  absl::Status Sum(int unit, const float* sums, uint64_t shard_parameters, float* shard);

  // What the rounded gradient of this rank's portions adds to the norm since the last call, where
  // shards have replicas: then what the swap manager knows is of whole shards. Nothing where
  // `norm_is_taken` is false.
  GradientPartial TakePortions();

 private:
  // In buckets: parts[r] of every rank r of `ranks`, `count` parameters each, to their sum at
  // `out` on rank r.
  absl::Status SumParts(Collectives& ranks, const float* parts, uint64_t count, float* out);
  absl::Status AddPortion(int unit, const float* portion, uint64_t count);

  const GradientSumOptions options_;
  Collectives* const group_;
  Collectives* const replicas_;
  TileCompute* const tiles_;
  const ExchangeStream stream_;
  char* const memory_;
  std::vector<std::vector<GradientPartial>> portions_;  // [unit][tile]
};

}  // namespace spillway
