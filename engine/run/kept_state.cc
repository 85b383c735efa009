#include "engine/run/kept_state.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/run/committed_run.h"
#include "engine/run/run_directory.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

// Swap parents of a rank's part of the commit, or of one that was freed. None if it has neither, or
// cannot be read.
std::vector<std::string> ParentsOf(const std::string& directory, int rank) {
  for (const std::string& path :
       {ManifestPath(directory, rank), FreedManifestPath(directory, rank)}) {
    const auto state = ReadManifestState(path);
    if (state.ok()) return state->parents;
  }
  return {};
}

std::vector<SwapRun> FindRuns(const std::string& output, int ranks) {
  std::vector<SwapRun> found;
  std::set<std::string> seen;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string own = RankOutput(output, rank);
    std::vector<std::string> parents = ParentsOf(own, rank);
    parents.push_back(own);  // its place without --swap, also if OUTPUT was moved since
    for (const std::string& parent : parents) {
      auto runs = FindSwapRuns(parent);
      if (!runs.ok()) continue;  // another machine's path
      for (SwapRun& run : *runs) {
        if (FileSystem::Real().Resolve(run.output) != own) continue;
        if (seen.insert(run.path).second) found.push_back(std::move(run));
      }
    }
  }
  return found;
}

bool HasExport(const std::string& output) {
  return Exists(output + "/model/config.json") || Exists(output + "/adapter/adapter_config.json");
}

absl::Status CheckMayFree(const std::string& output, const KeptState& kept, bool without_model) {
  if (!kept.state.finished) {
    return absl::FailedPreconditionError(
        absl::StrCat("the run in ", output, " is not finished: the state of step ", kept.state.step,
                     " stays for --resume (train --overwrite removes a run that is not to go on)"));
  }
  for (const SwapRun& run : kept.runs) {
    if (run.state != SwapRun::State::kInUse) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(run.path, " is in use ", run.reason, "; nothing was touched"));
  }
  if (kept.freed || without_model || HasExport(output)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      output,
      " has neither model/ nor adapter/, so the trained weights are in this state alone: "
      "export them first (spillway export --from ",
      output, " --to DIR), or give --force to lose them; nothing was touched"));
}

// Renames the first rank's manifest first: without it the others are no commit.
absl::Status MakeItNoCommit(const std::string& output, int ranks) {
  FileSystem& files = FileSystem::Real();
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string directory = RankOutput(output, rank);
    const std::string from = rank == 0 ? CommitManifestPath(output) : ManifestPath(directory, rank);
    if (absl::IsNotFound(files.Stat(from).status())) continue;
    RETURN_IF_ERROR(files.Rename(from, FreedManifestPath(directory, rank)));
    RETURN_IF_ERROR(files.SyncDirectory(directory));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t KeptState::bytes() const {
  uint64_t bytes = 0;
  for (const SwapRun& run : runs) bytes += run.allocated_bytes;
  return bytes;
}

std::string KeptState::Places() const {
  std::vector<std::string> places;
  for (const SwapRun& run : runs) {
    std::string place = ParentPath(run.path);
    if (std::find(places.begin(), places.end(), place) == places.end()) {
      places.push_back(std::move(place));
    }
  }
  return absl::StrJoin(places, ", ");
}

absl::StatusOr<KeptState> FindKeptState(const std::string& output) {
  const std::string real = FileSystem::Real().Resolve(output);
  KeptState kept;
  auto state = ReadManifestState(CommitManifestPath(real));
  if (absl::IsNotFound(state.status())) {
    state = ReadManifestState(FreedManifestPath(real, 0));
    kept.freed = state.ok();
  }
  if (absl::IsNotFound(state.status())) {
    return absl::NotFoundError(absl::StrCat("there is no commit in ", output));
  }
  RETURN_IF_ERROR(state.status());
  kept.state = *std::move(state);
  if (kept.state.part.rank > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(output, " is one rank's: name the run's output, ", OutputOfAllRanks(output)));
  }
  kept.runs = FindRuns(real, kept.state.part.ranks);
  return kept;
}

absl::StatusOr<uint64_t> FreeKeptState(const std::string& output, bool without_model) {
  const std::string real = FileSystem::Real().Resolve(output);
  // Every process of a run holds this lock, and none starts while it is held here.
  ASSIGN_OR_RETURN(const auto lock, RunDirectory::Open(real, {.create = false}));
  ASSIGN_OR_RETURN(const KeptState kept, FindKeptState(real));
  RETURN_IF_ERROR(CheckMayFree(output, kept, without_model));
  RETURN_IF_ERROR(MakeItNoCommit(real, kept.state.part.ranks));
  uint64_t freed_bytes = 0;
  for (const SwapRun& run : kept.runs) {
    const auto bytes = RemoveDeadRun(run);
    if (bytes.ok()) {
      freed_bytes += *bytes;
    } else {
      LogWarning(bytes.status().message());
    }
  }
  return freed_bytes;
}

std::string OutputOfAllRanks(const std::string& rank_output) {
  return RankByName(rank_output) > 0 ? ParentPath(ParentPath(rank_output)) : rank_output;
}

}  // namespace spillway
