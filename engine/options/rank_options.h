// Options of one rank of a run. Plain values.
#pragma once

#include "engine/numeric/exchange_format.h"

namespace spillway {

// The state that the ranks of a shard group divide among them (ZeRO stages 0 to 3). kHybrid: all of
// it, in groups that replicate each other.
enum class Shard { kNone, kOptimizer, kGradients, kFull, kHybrid };

// Above any run; products of ranks and parameters then fit into 64 bits.
inline constexpr int kMostRanks = 1 << 20;

struct RankOptions {
  int rank = 0;
  int ranks = 1;
  int ranks_here = 1;  // on this machine, which share its cores
  Shard shard = Shard::kFull;
  // Ranks that together hold one whole state: `ranks`, 1 with kNone, or fewer with kHybrid. Divides
  // `ranks`.
  int shard_group_size = 1;
  // The format of exchanged gradients, which are summed in fp32 in any case.
  ExchangeFormat communication_format = ExchangeFormat::kFloat32;
  // Timeout of any collective, after which the run ends.
  double collective_timeout_seconds = 600;
};

}  // namespace spillway
