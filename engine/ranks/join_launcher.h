// For trainers of one's own: the ranks that a launcher has started (torchrun, srun, mpirun),
// from its environment.
#pragma once

#include "absl/status/status.h"
#include "engine/options/rank_options.h"

namespace spillway {

// Sets `options`' rank, ranks and shard_group_size (with Shard::kHybrid the ranks of this
// machine, unless it is set to more than 1 already), and makes every rank but the first silent
// but for warnings and errors. micro_batch and accumulate are each rank's: divide what shall be
// the same on any number of ranks. One rank where there is no launcher. kInvalidArgument where its
// variables contradict each other.
absl::Status JoinLauncher(RankOptions* options);

}  // namespace spillway
