#include "engine/ranks/join_launcher.h"

#include "absl/strings/str_cat.h"
#include "engine/ranks/launch_environment.h"
#include "engine/ranks/rank_log.h"
#include "io/base/status.h"

namespace spillway {

absl::Status JoinLauncher(RankOptions* options) {
  ASSIGN_OR_RETURN(const Launch launch, ReadLaunch(ThisEnvironment(), std::nullopt));
  SetUpRankLog(launch);
  SetLocalVariables(launch);
  options->rank = launch.rank;
  options->ranks = launch.world;
  if (options->shard == Shard::kNone) {
    options->shard_group_size = 1;
  } else if (options->shard != Shard::kHybrid) {
    options->shard_group_size = launch.world;
  } else if (options->shard_group_size <= 1) {
    options->shard_group_size = launch.local_world;
  }
  if (options->ranks % options->shard_group_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat("groups of ", options->shard_group_size,
                                                   " ranks do not divide the ", options->ranks,
                                                   " that ", launch.launcher, " started"));
  }
  return absl::OkStatus();
}

}  // namespace spillway
