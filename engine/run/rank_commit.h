// Commits of several ranks. Each rank makes its part durable under a name of its own; then the
// first rank renames its manifest, which decides that the commit is one; then the others rename
// theirs. A rank that was killed between the two finds its part where it waits, and takes it up
// (SettleCommit). Until all know of the decision no rank writes over the commit before.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "engine/ranks/collectives.h"
#include "io/file_system.h"

namespace spillway {

// A new commit's id, the same on every rank and in no other commit.
absl::StatusOr<std::string> NewCommitId(Collectives& ranks, int64_t step,
                                        FileSystem& files = FileSystem::Real());

// With this rank's part durable in its PreparedManifestPath, `directory` being the rank's own, or
// not (`made` says why; *only_lost: and nothing else is lost). Returns OK when the commit
// is decided, and this rank's manifest is in its place. Where a rank has none, none has: then
// *only_lost says whether all of them can go on without this commit. Blocks.
absl::Status PublishCommit(const std::string& directory, Collectives& ranks,
                           const absl::Status& made, bool* only_lost,
                           FileSystem& files = FileSystem::Real());

// Before rank `rank` reads its manifest: makes it that of the commit `commit_id`, the first rank's,
// where its part of that waits; "": there is none, and what waits is of no use. kDataLoss where
// the part is missing. What is in its place is durable before what waited is removed.
// REQUIRES: the first rank's commit is durable.
absl::Status SettleCommit(const std::string& directory, int rank, const std::string& commit_id,
                          FileSystem& files = FileSystem::Real());

}  // namespace spillway
