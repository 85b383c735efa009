// Commits of several ranks. Each rank makes its part durable under a prepared name; then the first
// rank renames its manifest, which commits all parts; then the others rename theirs. A rank that
// was killed between the two finds its part under the prepared name, and renames it (SettleCommit).
// Until all ranks know of the commit, no rank overwrites the previous one.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "engine/ranks/collectives.h"
#include "io/file_system.h"

namespace spillway {

// A new commit's id, the same on every rank and unique among commits.
absl::StatusOr<std::string> NewCommitId(Collectives& ranks, int64_t step,
                                        FileSystem& files = FileSystem::Real());

// Publishes a commit. This rank's part is durable in its PreparedManifestPath if `made` is OK;
// `directory` is the rank's own. *only_lost: whether an error in `made` costs only this commit.
// Returns OK when the commit is decided and this rank's manifest has its name. If one rank has no
// part, there is no commit, and *only_lost says whether all can continue without it. Blocks.
absl::Status PublishCommit(const std::string& directory, Collectives& ranks,
                           const absl::Status& made, bool* only_lost,
                           FileSystem& files = FileSystem::Real());

// Call before rank `rank` reads its manifest: renames a prepared part if it belongs to the commit
// `commit_id` of the first rank; "": there is no commit, and a prepared part is useless. kDataLoss
// if the part is missing. The renamed part is durable before others are removed. REQUIRES: the
// first rank's commit is durable.
absl::Status SettleCommit(const std::string& directory, int rank, const std::string& commit_id,
                          FileSystem& files = FileSystem::Real());

}  // namespace spillway
