#include "engine/run/commit_finder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/run/committed_run.h"
#include "engine/run/swap_directories.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "swap/mover/whole_store.h"

namespace spillway {
namespace {

// The process that made the commit may have been killed between a rename and the sync after it.
// State that builds on the commit, or removal because of it, must not survive a power loss that the
// commit does not.
absl::Status MakeDurable(const std::string& directory, FileSystem& files) {
  RETURN_IF_ERROR(files.SyncDirectory(directory));
  return SyncIntoParent(files, directory);
}

// Whether a commit is damaged, so that an older one is used. One that only cannot be read now,
// because of a drive's error or missing rights, may be good, and would be removed as a later one.
bool IsBad(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsInvalidArgument(status);
}

absl::Status CannotTell(const absl::Status& status, const std::string& directory) {
  return Annotate(status, absl::StrCat("whether the commit in ", directory,
                                       " is good can't be told; mend that, or move it away to go "
                                       "on from an older one"));
}

absl::Status ReadThrough(const CommittedRun& run) {
  LogInfo(absl::StrCat("checking the commit of step ", run.state.step, " in ", run.directory));
  return ReadStore(*run.store, 0, run.store->layout().num_planes(),
                   [](const TileView&) { return absl::OkStatus(); });
}

// Sets the commit that the run continues from.
absl::Status Take(CommittedRun run, FileSystem& files, FoundCommit& found) {
  RETURN_IF_ERROR(MakeDurable(run.directory, files));
  found.tile_parameters = run.store->layout().tile_parameters();
  found.in_place =
      run.store->in_place() != nullptr ? run.store->in_place()->places() : InPlaceUnits();
  found.state = std::move(run.state);
  found.directory = std::move(run.directory);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadThroughParts(const CommittedRun& run, int rank, int ranks, FileSystem& files,
                              absl::string_view model_directory) {
  const RankPart& of = run.state.part;
  for (int part = rank; part < of.ranks; part += ranks) {
    if (part == of.rank && run.store != nullptr) {
      RETURN_IF_ERROR(ReadThrough(run));
      continue;
    }
    ASSIGN_OR_RETURN(const std::string path,
                     FindPart(RankOutput(run.directory, part), part, of.commit_id, files));
    ASSIGN_OR_RETURN(const CommittedRun other, OpenCommit(path, files, model_directory));
    RETURN_IF_ERROR(ReadThrough(other));
  }
  return absl::OkStatus();
}

absl::Status CheckTogether::Check(const CommittedRun& run) {
  RETURN_IF_ERROR(FromFirstRank(world_, run.directory).status());
  RETURN_IF_ERROR(FromFirstRank(world_, EncodeRunState(run.state)).status());
  return Agree(ReadThroughParts(run, 0, world_.size(), files_, model_directory_));
}

absl::Status CheckTogether::End() { return FromFirstRank(world_, "").status(); }

absl::Status CheckTogether::Serve() {
  while (true) {
    CommittedRun run;
    ASSIGN_OR_RETURN(run.directory, FromFirstRank(world_, ""));
    if (run.directory.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string state, FromFirstRank(world_, ""));
    ASSIGN_OR_RETURN(run.state, DecodeRunState(state));
    const absl::Status own =
        ReadThroughParts(run, world_.rank(), world_.size(), files_, model_directory_);
    if (!own.ok()) LogWarning(own.message());
    Agree(own).IgnoreError();  // the first rank judges it
  }
}

absl::Status CheckTogether::Agree(const absl::Status& own) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> all,
                   AllGatherCount(world_, static_cast<int64_t>(own.code())));
  if (!own.ok()) return own;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == 0) continue;
    return absl::Status(static_cast<absl::StatusCode>(all[rank]),
                        absl::StrCat("rank ", rank, " can't read its part (its log says why)"));
  }
  return absl::OkStatus();
}

absl::Status FindCommit(const std::string& output, const CommitCopies* copies,
                        const CheckCommit& check, absl::string_view model_directory,
                        FileSystem& files, FoundCommit& found) {
  std::vector<CommittedRun> runs;
  std::vector<std::string> directories = {output};
  absl::Status bad;
  if (copies != nullptr) {
    for (const CommitCopies::Copy& copy : copies->found()) directories.push_back(copy.directory);
  }
  for (const std::string& directory : directories) {
    auto run = OpenCommittedRun(directory, files, model_directory);
    if (run.ok()) {
      if (directory == output) {
        found.output_store = DirectoriesOf(*run->store, files);
        found.output_store_number = run->state.store_number;
        found.output_manifest = run->manifest_path;
        found.output_rank = run->state.part.rank;
      }
      runs.push_back(*std::move(run));
    } else if (!absl::IsNotFound(run.status())) {
      if (copies != nullptr && !IsBad(run.status())) return CannotTell(run.status(), directory);
      if (bad.ok()) bad = run.status();
      if (copies != nullptr) LogWarning(run.status().message());
    }
  }
  // Newest first.
  std::stable_sort(runs.begin(), runs.end(), [](const CommittedRun& a, const CommittedRun& b) {
    return a.state.step > b.state.step;
  });
  for (CommittedRun& run : runs) {
    if (copies != nullptr && check != nullptr) {
      if (const absl::Status status = check(run); !status.ok()) {
        if (!IsBad(status)) return CannotTell(status, run.directory);
        if (bad.ok()) bad = status;
        LogWarning(absl::StrCat("that commit is not good: ", status.message()));
        continue;
      }
    }
    return Take(std::move(run), files, found);
  }
  return bad;
}

absl::Status TakeFirstRanksCommit(const FirstRankCommit& first, const std::string& first_output,
                                  int rank, const std::string& output,
                                  absl::string_view model_directory, FileSystem& files,
                                  FoundCommit& found) {
  if (!first.committed) {
    if (!found.state) return absl::OkStatus();
    // A manifest of this rank alone is not a commit.
    return absl::FailedPreconditionError(
        absl::StrCat(output, " holds this rank's part of a commit that ", first_output,
                     " does not hold: bring that back, or remove both with --overwrite"));
  }
  const RankPart& part = first.committed->part;
  if (first.directory != first_output && rank < part.ranks) {
    const std::string copy = RankOutput(first.directory, rank);
    ASSIGN_OR_RETURN(const std::string path, FindPart(copy, rank, part.commit_id, files));
    ASSIGN_OR_RETURN(CommittedRun run, OpenCommit(path, files, model_directory));
    return Take(std::move(run), files, found);
  }
  if (found.state && found.state->part.commit_id == part.commit_id) return absl::OkStatus();
  found.state = first.committed;
  found.directory = first.directory;
  found.in_place = {};
  return absl::OkStatus();
}

}  // namespace spillway
