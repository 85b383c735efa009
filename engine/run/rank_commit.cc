#include "engine/run/rank_commit.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/run/committed_run.h"
#include "engine/run/run_state.h"
#include "io/base/status.h"

namespace spillway {
namespace {

absl::Status Rename(const std::string& directory, FileSystem& files) {
  RETURN_IF_ERROR(files.Rename(PreparedManifestPath(directory), CommitManifestPath(directory)));
  return files.SyncDirectory(directory);
}

}  // namespace

absl::StatusOr<std::string> NewCommitId(Collectives& ranks, int64_t step, FileSystem& files) {
  ASSIGN_OR_RETURN(const uint64_t random, files.RandomNumber());
  return FromFirstRank(ranks, absl::StrFormat("%d-%016x", step, random));
}

absl::Status PublishCommit(const std::string& directory, Collectives& ranks, FileSystem& files) {
  // All parts are durable when all have come here.
  RETURN_IF_ERROR(AllGatherCount(ranks, 0).status());
  absl::Status status;
  if (ranks.rank() == 0) status = Rename(directory, files);
  RETURN_IF_ERROR(Agree(ranks, status));
  return ranks.rank() == 0 ? absl::OkStatus() : Rename(directory, files);
}

absl::Status SettleCommit(const std::string& directory, const std::string& commit_id,
                          FileSystem& files) {
  const std::string prepared = PreparedManifestPath(directory);
  if (!commit_id.empty()) {
    ASSIGN_OR_RETURN(const std::string part, FindPart(directory, commit_id, files));
    if (part == prepared) return Rename(directory, files);
    // A rank that was killed between rename and sync left a name that a power loss takes back.
    RETURN_IF_ERROR(files.SyncDirectory(directory));
  }
  files.Remove(prepared).IgnoreError();
  return absl::OkStatus();
}

}  // namespace spillway
