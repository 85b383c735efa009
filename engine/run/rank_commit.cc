#include "engine/run/rank_commit.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/run/run_state.h"
#include "engine/weights/state_source.h"
#include "io/file_system.h"
#include "io/base/status.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

absl::Status Rename(const std::string& directory) {
  FileSystem& files = FileSystem::Real();
  RETURN_IF_ERROR(files.Rename(PreparedManifestPath(directory), CommitManifestPath(directory)));
  return files.SyncDirectory(directory);
}

// "" where there is no readable manifest: what it is then said by whoever has to read it.
std::string CommitIdAt(const std::string& manifest_path) {
  const auto run = OpenCommit(manifest_path);
  return run.ok() ? run->state.part.commit_id : "";
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

absl::StatusOr<std::string> FindPart(const std::string& directory, const std::string& commit_id) {
  for (const std::string& path : {CommitManifestPath(directory), PreparedManifestPath(directory)}) {
    if (CommitIdAt(path) == commit_id) return path;
  }
  return WrongBytesError(absl::StrCat(
      "the commit in ", fs::path(directory).parent_path().parent_path().string(),
      " has parts of several ranks, and the one in ", directory,
      " is missing, damaged or of another commit; bring it back, or begin anew with --overwrite"));
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
