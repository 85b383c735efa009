#include "engine/torch/train_ranks.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/ranks/shard_plan.h"
#include "engine/run/run_state.h"
#include "io/base/status.h"

namespace spillway {

absl::StatusOr<std::unique_ptr<RankConnection>> ConnectRanks(const TrainOptions& options,
                                                             const Launch& launch) {
  if (options.ranks == 1) return nullptr;
  if (launch.world != options.ranks || launch.rank != options.rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("the run has ", options.ranks, " ranks, but the launcher started ",
                     launch.world, " (this is its rank ", launch.rank, ")"));
  }
  ConnectOptions connect;
  connect.launch = launch;
  connect.grid = GridOf(options);
  connect.timeout_seconds = options.collective_timeout_seconds;
  // What the others must have been told, too.
  absl::StrAppend(
      &connect.identity, "output: ", options.output, "\nsteps: ", options.steps,
      "\nranks: ", options.ranks, "\nshard: ", static_cast<int>(options.shard),
      "\nshard group: ", options.shard_group_size,
      "\ncommunication dtype: ", std::string(ExchangeFormatName(options.communication_format)),
      "\nupdate: ", static_cast<int>(options.update), "\nresume: ", options.resume ? "yes" : "no",
      "\noverwrite: ", options.overwrite ? "yes" : "no",
      "\ncommits: ", options.no_commit ? "none" : absl::StrCat(options.commit_every),
      "\neval-every: ", options.eval_every);
  for (const auto& [name, value] : RunIdentity(options)) {
    absl::StrAppend(&connect.identity, "\n", name, ": ", value);
  }
  return RankConnection::Open(connect);
}

absl::Status AgreeOnDevice(const DeviceChoice& choice, Collectives& world) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> gpus, AllGatherCount(world, choice.gpu.has_value()));
  std::string with, without;
  for (size_t rank = 0; rank < gpus.size(); ++rank) {
    std::string& list = gpus[rank] != 0 ? with : without;
    absl::StrAppend(&list, list.empty() ? "" : ", ", rank);
  }
  if (with.empty() || without.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "ranks compute together, on GPUs or on CPUs: ", with, " found a GPU and ", without,
      " did not; give --device cpu, or --device cuda, with which those say why they have none"));
}

}  // namespace spillway
