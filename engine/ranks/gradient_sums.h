// Sums a unit's gradient over all ranks: each rank passes its fp32 sums and receives its shard of
// their sum. The order of addition is that of the ranks, so no bit depends on the size of the
// buckets, or, for one number of ranks, on which rank has which shard (except in hybrid sharding,
// which sums in two stages).
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

// Number of parameters of a shard that are exchanged at once.
inline constexpr uint64_t kDefaultBucketParameters = 256 * 1024;
// On a device: number of parameters of all shards together per exchange, if larger. 32 MiB in fp32.
inline constexpr uint64_t kDeviceBucketsParameters = 8 * 1024 * 1024;

struct GradientSumOptions {
  ShardGrid grid;
  uint64_t bucket_parameters = kDefaultBucketParameters;
  // Format in which each rank sends its sums. kFloat8: buckets are multiples of kExchangeBlock.
  ExchangeFormat format = ExchangeFormat::kFloat32;
  uint64_t tile_parameters = 0;  // of the state's layout, for the portions' sums of squares
  // Whether every step calls TakePortions, because updates wait for the norm. If false, nothing is
  // rounded or stored for the norm.
  bool norm_is_taken = true;
};

class GradientSums {
 public:
  // `group`: this rank's shard group, null if it is alone. `replicas`: the ranks of all groups with
  // the same shard, likewise. `tiles` rounds, for the norm. `memory`: MemoryBytes of the stream's
  // memory, which also has all that is summed. All outlive the object.
  GradientSums(const GradientSumOptions& options, Collectives* group, Collectives* replicas,
               TileCompute* tiles, const ExchangeStream& stream, char* memory);

  static uint64_t MemoryBytes(const GradientSumOptions& options);

  // Sums the gradient of `unit`. `sums`: the whole unit's, `shard_parameters` times the group's
  // size. `shard` receives this rank's shard of the sum over all ranks.
  absl::Status Sum(int unit, const float* sums, uint64_t shard_parameters, float* shard);

  // Contribution of this rank's portions of the rounded gradient to the norm since the last call.
  // Needed if shards have replicas, since the swap manager's sums are of whole shards. Empty if
  // `norm_is_taken` is false.
  GradientPartial TakePortions();

 private:
  // Sums parts[r] of every rank r of `ranks`, `count` parameters each, bucket by bucket into `out`
  // on rank r.
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
