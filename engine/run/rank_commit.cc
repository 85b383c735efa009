#include "engine/run/rank_commit.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/run/committed_run.h"
#include "engine/run/run_state.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Results of the ranks' parts, the worst last.
enum Part : int64_t { kDurable, kLost, kFailed };

absl::Status Rename(const std::string& directory, int rank, FileSystem& files) {
  RETURN_IF_ERROR(
      files.Rename(PreparedManifestPath(directory, rank), ManifestPath(directory, rank)));
  return files.SyncDirectory(directory);
}

}  // namespace

absl::StatusOr<std::string> NewCommitId(Collectives& ranks, int64_t step, FileSystem& files) {
  ASSIGN_OR_RETURN(const uint64_t random, files.RandomNumber());
  return FromFirstRank(ranks, absl::StrFormat("%d-%016x", step, random));
}

absl::Status PublishCommit(const std::string& directory, Collectives& ranks,
                           const absl::Status& made, bool* only_lost, FileSystem& files) {
  const int64_t own = made.ok() ? kDurable : *only_lost ? kLost : kFailed;
  *only_lost = false;
  // All parts are durable once all ranks have reached this exchange and report it.
  ASSIGN_OR_RETURN(const std::vector<int64_t> all, AllGatherCount(ranks, own));
  const int64_t worst = *std::max_element(all.begin(), all.end());
  if (worst != kDurable) {
    *only_lost = worst == kLost;
    // The part belongs to no commit. If it cannot be removed, the next Open removes it.
    if (made.ok()) {
      RemoveIfThere(files, PreparedManifestPath(directory, ranks.rank())).IgnoreError();
    }
    return Agree(ranks, made);
  }
  absl::Status status;
  if (ranks.rank() == 0) status = Rename(directory, 0, files);
  RETURN_IF_ERROR(Agree(ranks, status));
  return ranks.rank() == 0 ? absl::OkStatus() : Rename(directory, ranks.rank(), files);
}

absl::Status SettleCommit(const std::string& directory, int rank, const std::string& commit_id,
                          FileSystem& files) {
  const std::string prepared = PreparedManifestPath(directory, rank);
  if (!commit_id.empty()) {
    ASSIGN_OR_RETURN(const std::string part, FindPart(directory, rank, commit_id, files));
    if (part == prepared) return Rename(directory, rank, files);
    // If a rank was killed between rename and sync, a power loss could undo the name.
    RETURN_IF_ERROR(files.SyncDirectory(directory));
  }
  files.Remove(prepared).IgnoreError();
  return absl::OkStatus();
}

}  // namespace spillway
