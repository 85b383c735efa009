#include "engine/run/rank_commit.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/run/committed_run.h"
#include "engine/run/run_state.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

absl::Status Rename(const std::string& directory) {
  FileSystem& files = FileSystem::Real();
  RETURN_IF_ERROR(files.Rename(PreparedManifestPath(directory), CommitManifestPath(directory)));
  return files.SyncDirectory(directory);
}

}  // namespace

absl::StatusOr<std::string> NewCommitId(Collectives& ranks, int64_t step) {
  ASSIGN_OR_RETURN(const uint64_t random, FileSystem::Real().RandomNumber());
  return FromFirstRank(ranks, absl::StrFormat("%d-%016x", step, random));
}

absl::Status PublishCommit(const std::string& directory, Collectives& ranks) {
  // All parts are durable when all have come here.
  RETURN_IF_ERROR(AllGatherCount(ranks, 0).status());
  absl::Status status;
  if (ranks.rank() == 0) status = Rename(directory);
  RETURN_IF_ERROR(Agree(ranks, status));
  return ranks.rank() == 0 ? absl::OkStatus() : Rename(directory);
}

absl::Status SettleCommit(const std::string& directory, const std::string& commit_id) {
  const std::string prepared = PreparedManifestPath(directory);
  std::error_code error;
  if (!commit_id.empty()) {
    ASSIGN_OR_RETURN(const std::string part, FindPart(directory, commit_id));
    if (part == prepared) return Rename(directory);
  }
  fs::remove(prepared, error);
  return absl::OkStatus();
}

}  // namespace spillway
