// Options for one rank: a process of several that train together. Plain values.
#pragma once

#include "engine/numeric/exchange_format.h"

namespace spillway {

// State that is sharded over the ranks of a shard group: ZeRO's stages 0 to 3. kHybrid: all of it,
// within groups of ranks that are copies of each other.
enum class Shard { kNone, kOptimizer, kGradients, kFull, kHybrid };

// Upper bound of the number of ranks; products of ranks and parameters then fit into 64 bits.
inline constexpr int kMostRanks = 1 << 20;

struct RankOptions {
  int rank = 0;
  int ranks = 1;
  int ranks_here = 1;  // ranks on this machine, which share its cores
  Shard shard = Shard::kFull;
  // Number of ranks that together keep one whole state: 1 with kNone, a divisor of `ranks` with
  // kHybrid, otherwise `ranks`.
  int shard_group_size = 1;
  // Format in which gradients are exchanged; sums are fp32 in any case.
  ExchangeFormat communication_format = ExchangeFormat::kFloat32;
  // Maximum wait for other ranks in an exchange; afterwards the run ends with an error.
  double collective_timeout_seconds = 600;
};

}  // namespace spillway
