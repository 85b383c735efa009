// A process among those that train together. Plain values.
#pragma once

#include "engine/numeric/exchange_format.h"

namespace spillway {

// What of the state each rank of a shard group keeps a share of, and not the whole (ZeRO's stages
// 0 to 3); hybrid: all of it, in groups of ranks that are copies of each other.
enum class Shard { kNone, kOptimizer, kGradients, kFull, kHybrid };

// More than any run has; with it products of ranks and parameters fit into 64 bits.
inline constexpr int kMostRanks = 1 << 20;

struct RankOptions {
  int rank = 0;
  int ranks = 1;
  int ranks_here = 1;  // on this machine, whose cores they share
  Shard shard = Shard::kFull;
  // Ranks that keep one whole state between them: `ranks`, or 1 with kNone, or fewer with
  // kHybrid. Divides `ranks`.
  int shard_group_size = 1;
  // In which gradients are exchanged; they are summed in fp32 either way.
  ExchangeFormat communication_format = ExchangeFormat::kFloat32;
  // How long a rank waits for the others, in any exchange, before the run ends.
  double collective_timeout_seconds = 600;
};

}  // namespace spillway
