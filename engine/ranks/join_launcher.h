// For trainers of one's own: reads from the environment which rank a launcher (torchrun, srun,
// mpirun) started.
#pragma once

#include "absl/status/status.h"
#include "engine/options/rank_options.h"

namespace spillway {

// Sets `options`' rank, ranks and shard_group_size (with Shard::kHybrid to the number of ranks on
// this machine, unless it is already more than 1). Every rank but the first then logs only warnings
// and errors. micro_batch and accumulate are each rank's: divide what should not depend on the
// number of ranks. Without a launcher there is one rank. kInvalidArgument if its variables
// contradict each other.
absl::Status JoinLauncher(RankOptions* options);

}  // namespace spillway
