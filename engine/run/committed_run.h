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

// kDataLoss if the units of a commit's run state are not those of its tiles.
absl::Status CheckModelFitsLayout(const ModelDescription& model, const StateLayout& layout,
                                  const RankPart& part = {});

// The last commit in `output`. kNotFound if there is none; the message says so if its state was
// freed. With several ranks it is the part of the rank whose directory `output` is.
struct CommittedRun {
  std::string manifest_path;
  std::string directory;  // has the manifest
  RunState state;
  std::unique_ptr<SwapStore> store;
  std::vector<std::unique_ptr<SwapStore>> others;  // the shards after the first

  // Opens the parts of other ranks below `directory`. kDataLoss if one is missing.
  absl::Status OpenOtherParts(FileSystem& files = FileSystem::Real(),
                              absl::string_view model_directory = "");
  ShardGrid grid() const { return {state.part.ranks, state.part.group, state.part.rank}; }
  // All shards, in order. REQUIRES: OpenOtherParts, if there are several.
  std::vector<const SwapStore*> shards() const;
  // The whole state; valid while this object lives. REQUIRES: likewise.
  StateSource source() const;
};
// `model_directory`: as for SwapStore::Open.
absl::StatusOr<CommittedRun> OpenCommittedRun(const std::string& output,
                                              FileSystem& files = FileSystem::Real(),
                                              absl::string_view model_directory = "");
// Opens the commit that a manifest names, wherever the manifest is.
absl::StatusOr<CommittedRun> OpenCommit(const std::string& manifest_path,
                                        FileSystem& files = FileSystem::Real(),
                                        absl::string_view model_directory = "");

// The path of a rank's part of the commit, without changing anything. `directory`: of the rank.
absl::StatusOr<std::string> FindPart(const std::string& directory, int rank,
                                     const std::string& commit_id,
                                     FileSystem& files = FileSystem::Real());

// Reads only the last commit's run state; kNotFound without a commit.
absl::StatusOr<RunState> ReadCommittedState(const std::string& output);

// The run state in a manifest, also if the files that it names are missing.
absl::StatusOr<RunState> ReadManifestState(const std::string& manifest_path,
                                           FileSystem& files = FileSystem::Real());
// The state of a finished run in `output` whose tiles were freed; kNotFound for others.
absl::StatusOr<RunState> ReadFreedState(const std::string& output,
                                        FileSystem& files = FileSystem::Real());
// Returns "the run in /out finished at step 4, and its state was freed (spillway clean)".
std::string DescribeFreed(const std::string& output, const RunState& freed);

}  // namespace spillway
