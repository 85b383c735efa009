// A commit, opened for reading: the state of the run that made it, all ranks' parts together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/ranks/shard_grid.h"
#include "engine/run/run_state.h"
#include "engine/weights/state_source.h"
#include "io/file_system.h"
#include "swap/store/swap_store.h"

namespace spillway {

// kDataLoss when the units of a commit's run state are not those of its tiles.
absl::Status CheckModelFitsLayout(const ModelDescription& model, const StateLayout& layout,
                                  const RankPart& part = {});

// The last commit in `output`. kNotFound when there is none, which says so where it was freed. Of
// several ranks it is the one rank's part whose directory `output` is.
struct CommittedRun {
  std::string manifest_path;
  std::string directory;  // of the manifest
  RunState state;
  std::unique_ptr<SwapStore> store;
  std::vector<std::unique_ptr<SwapStore>> others;  // the shards after the first

  // Opens the parts that the first rank's lacks, below `directory`. kDataLoss where one is missing.
  absl::Status OpenOtherParts(FileSystem& files = FileSystem::Real(),
                              absl::string_view model_directory = "");
  ShardGrid grid() const { return {state.part.ranks, state.part.group, state.part.rank}; }
  // All shards, in order. REQUIRES: OpenOtherParts, where there are several.
  std::vector<const SwapStore*> shards() const;
  // The whole state; valid while this lives. REQUIRES: likewise.
  StateSource source() const;
};
// `model_directory`: as of SwapStore::Open.
absl::StatusOr<CommittedRun> OpenCommittedRun(const std::string& output,
                                              FileSystem& files = FileSystem::Real(),
                                              absl::string_view model_directory = "");
// The commit that a manifest names, wherever that lies.
absl::StatusOr<CommittedRun> OpenCommit(const std::string& manifest_path,
                                        FileSystem& files = FileSystem::Real(),
                                        absl::string_view model_directory = "");

// Where to read a rank's part of the commit, without settling anything; `directory` is the rank's.
absl::StatusOr<std::string> FindPart(const std::string& directory, int rank,
                                     const std::string& commit_id,
                                     FileSystem& files = FileSystem::Real());

// The last commit's run state alone; kNotFound without one.
absl::StatusOr<RunState> ReadCommittedState(const std::string& output);

// The run state in a manifest, whether the files that this names are there or not.
absl::StatusOr<RunState> ReadManifestState(const std::string& manifest_path,
                                           FileSystem& files = FileSystem::Real());
// Of the run in `output`, which has finished and whose state was freed since; kNotFound for others.
absl::StatusOr<RunState> ReadFreedState(const std::string& output,
                                        FileSystem& files = FileSystem::Real());
// "the run in /out finished at step 4, and its state was freed (spillway clean)".
std::string DescribeFreed(const std::string& output, const RunState& freed);

}  // namespace spillway
