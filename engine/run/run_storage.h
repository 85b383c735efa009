// Where a run keeps its files, and what it finds there: OUTPUT with the manifest, a
// directory of its own below every swap path, and copies of commits (--persist). Owns the
// locks. docs/RUNS.md says what stays when.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/options/train_options.h"
#include "engine/ranks/collectives.h"
#include "engine/run/commit_copies.h"
#include "engine/run/earlier_run.h"
#include "engine/run/run_directory.h"
#include "engine/run/run_state.h"
#include "swap/store/swap_store.h"

namespace spillway {

class RunStorage {
 public:
  // Locks OUTPUT (created where missing) and reads the last commit, if there is one; with
  // --persist the newest good one, in OUTPUT or among the copies, read through first. With
  // --overwrite none counts.
  // kFailedPrecondition when another process owns OUTPUT or what an earlier run left below
  // the swap paths; kAlreadyExists when there is a commit, or such a leftover, and neither
  // --resume nor --overwrite; kDataLoss when no commit is good. Nothing is touched then.
  // Of several ranks every one opens its own (options.output is RankOutput's), the first one
  // first. `first`: to the others, what that found.
  struct FirstRank {
    std::string output;  // OUTPUT
    std::optional<RunState>
        committed;  // the commit there, which settles the others' (rank_commit.h)
  };
  static absl::StatusOr<std::unique_ptr<RunStorage>> Open(const TrainOptions& options,
                                                          const FirstRank* first = nullptr);
  // Takes back what is of no use to anybody: swap that no commit refers to, and OUTPUT where
  // nothing but our lock came into it.
  ~RunStorage();

  const std::string& output() const { return output_->path(); }
  std::string manifest_path() const { return CommitManifestPath(output()); }
  // The last commit at the time of Open, and the directory that holds its manifest.
  const std::optional<RunState>& committed() const { return committed_; }
  const std::string& committed_in() const { return committed_in_; }
  // Null without --persist.
  CommitCopies* copies() { return copies_.get(); }
  // What a run that was killed while it made a copy had left to do: copies the commit in
  // OUTPUT, in the background, or removes older ones. REQUIRES: after OpenStore, where that
  // is called at all.
  absl::Status FinishCopies();

  // The store of this run, in the state of the last commit or empty. Moves it when the
  // swap paths are others than the commit's. Fills in where it is, for later commits.
  // First removes what an earlier run left, as told, and says so. kResourceExhausted, with
  // nothing touched, where a file system has no room for all that the run will write there.
  absl::StatusOr<std::unique_ptr<SwapStore>> OpenStore(const StateLayout& layout,
                                                       const SpillRoom& spill, RunState& state);

  // After OpenStore of all ranks: where the state was moved, commits it in its new place, which
  // replaces the commit that it came from. `ranks`: where there are several.
  absl::Status CommitMove(SwapStore* store, Collectives* ranks);

  // Instead of OpenStore, where the run needs no store: the same with what was left.
  absl::Status OpenNone();

  // kUnavailable where somebody removed a file or directory that the run works in: there is
  // nothing that could be committed any more.
  absl::Status CheckStillThere() const;

  // The tile size of the commit, 0 without one.
  uint64_t committed_tile_parameters() const { return committed_tile_parameters_; }

 private:
  explicit RunStorage(const TrainOptions& options) : options_(options) {}
  std::string DirectoryBelow(const std::string& parent, int store_number) const;
  absl::Status FindCommit();
  absl::Status TakeFirstRanksCommit(const FirstRank* first);
  // Locks what an earlier run left below the swap paths.
  absl::Status FindEarlier();
  // kAlreadyExists where an earlier run is in the way and nothing was said of it.
  absl::Status CheckMayBegin() const;
  absl::Status RemoveEarlier();
  absl::Status CheckRoom(const StateLayout& layout, const StoreOptions& store,
                         const std::vector<std::string>& existing) const;
  // Each locked, made where missing and marked as this run's.
  absl::Status Lock(const std::vector<std::string>& directories);
  absl::StatusOr<std::unique_ptr<SwapStore>> OpenCommitted(const StateLayout& layout,
                                                           const SpillRoom& spill);
  absl::Status MoveInto(SwapStore& store, const RunState& state);
  // What ranks had that this run has not.
  void RemoveFormerRanks();
  bool CommitRefersToSwap() const;
  void RemoveSwap();

  const TrainOptions options_;
  std::unique_ptr<RunDirectory> output_;
  bool output_was_empty_ = false;     // nothing in OUTPUT when this run came
  std::vector<std::string> created_;  // OUTPUT and its parents that were not there, deepest first
  std::string id_;                    // of OUTPUT, in the names of directories below swap paths
  std::string run_id_;                // OUTPUT/run-id
  bool run_id_created_ = false;
  std::unique_ptr<CommitCopies> copies_;
  std::optional<RunState> committed_;
  std::string committed_in_;
  uint64_t committed_tile_parameters_ = 0;
  std::string first_output_;               // OUTPUT of all ranks
  std::optional<RunState> moved_;          // the commit to be made of what OpenStore moved
  std::vector<std::string> output_store_;  // directories that the commit in OUTPUT names
  int output_store_number_ = -1;
  std::unique_ptr<EarlierRun> earlier_;
  std::vector<std::unique_ptr<RunDirectory>> directories_;
};

}  // namespace spillway
