#include "engine/torch/train_ranks.h"

#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/stop_signal.h"
#include "engine/ranks/rank_listener.h"
#include "engine/ranks/shard_plan.h"
#include "engine/run/run_state.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Files besides connections to ranks and to strangers.
constexpr rlim_t kOtherFiles = 64 + kMostRankStrangers;
// The limit is raised to this value if that is allowed.
constexpr rlim_t kManyFiles = 65536;

// For every other rank a socket in each common conversation (three at most), one for the first
// rank's table, and one while it connects.
absl::Status AllowConnections(int ranks) {
  const rlim_t needed = 5 * static_cast<rlim_t>(ranks - 1) + kOtherFiles;
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();
  const rlim_t allowed = std::min(limit.rlim_max, std::max(needed, kManyFiles));
  if (limit.rlim_cur < allowed) {
    limit.rlim_cur = allowed;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::getrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur >= needed) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("`ulimit -n` allows this process ", limit.rlim_cur, " open files, and one of ",
                   ranks, " ranks takes up to ", needed,
                   " with its connections: raise the hard limit (`ulimit -Hn`) to that"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankConnection>> ConnectRanks(const TrainOptions& options,
                                                             const Launch& launch,
                                                             const Dataset* evaluation,
                                                             const EvaluationTextUse& texts) {
  if (options.ranks == 1) {
    RETURN_IF_ERROR(StopSignal::Check());
    return nullptr;
  }
  if (launch.world != options.ranks || launch.rank != options.rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("the run has ", options.ranks, " ranks, but the launcher started ",
                     launch.world, " (this is its rank ", launch.rank, ")"));
  }
  RETURN_IF_ERROR(AllowConnections(options.ranks));
  ConnectOptions connect;
  connect.launch = launch;
  connect.grid = GridOf(options);
  connect.timeout_seconds = options.collective_timeout_seconds;
  // Settings that must be the same for all ranks, too.
  absl::StrAppend(
      &connect.identity, "output: ", options.output, "\nsteps: ", options.steps,
      "\nranks: ", options.ranks, "\nshard: ", static_cast<int>(options.shard),
      "\nshard group: ", options.shard_group_size,
      "\ncommunication dtype: ", std::string(ExchangeFormatName(options.communication_format)),
      "\nupdate: ", static_cast<int>(options.update), "\nresume: ", options.resume ? "yes" : "no",
      "\noverwrite: ", options.overwrite ? "yes" : "no", "\ncommits: ",
      options.no_commit ? "none"
                        : absl::StrCat(options.commit_every, " steps, ", options.commit_seconds,
                                       " s, ", options.commit_cost_part),
      "\nallow-change: ", absl::StrJoin(options.allow_change, ","),
      "\neval-every: ", options.eval_every, "\nevaluation data: ",
      evaluation ? absl::StrCat(evaluation->size(), " samples, ", evaluation->fingerprint())
                 : "none",
      "\npredict-with-generate: ", texts.makes_texts ? "yes" : "no",
      "\nsample-prompts: ", texts.writes_samples ? "yes" : "no",
      // The path may differ between machines.
      "\npersist: ", options.persist.empty() ? "no" : "yes", "\nkeep: ", options.keep,
      "\nmax-bytes-written: ", options.max_bytes_written);
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
