// Where a run keeps its files, and what it finds there: OUTPUT with the manifest
// (output_directory.h), a directory of its own below every swap path (swap_directories.h), and
// copies of commits (--persist). docs/RUNS.md says what stays when.
//
// Large because a store that is begun, gone on with, moved or cut for other ranks is decided on
// from the same findings.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/options/train_options.h"
#include "engine/ranks/collectives.h"
#include "engine/run/commit_copies.h"
#include "engine/run/commit_finder.h"
#include "engine/run/earlier_run.h"
#include "engine/run/output_directory.h"
#include "engine/run/run_state.h"
#include "engine/run/swap_directories.h"
#include "io/file_system.h"
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
  // first. `first`: to the others, what that found; it settles what they have (rank_commit.h).
  // `check`: by which a commit is good, where there are several ranks. `files` outlives it, and
  // `executor`, by which copies are made where it is there.
  using FirstRank = FirstRankCommit;
  static absl::StatusOr<std::unique_ptr<RunStorage>> Open(const TrainOptions& options,
                                                          const FirstRank* first = nullptr,
                                                          FileSystem& files = FileSystem::Real(),
                                                          Executor* executor = nullptr,
                                                          const CheckCommit& check = nullptr);
  // The same for one of several ranks (`world`; null: there is one), together with the others: the
  // first one opens its own first, since OUTPUT is its.
  static absl::StatusOr<std::unique_ptr<RunStorage>> OpenTogether(
      const TrainOptions& options, Collectives* world, FileSystem& files = FileSystem::Real(),
      Executor* executor = nullptr);
  // Takes back what is of no use to anybody: swap that no commit refers to, and OUTPUT where
  // nothing but our lock came into it.
  ~RunStorage();

  FileSystem& files() const { return files_; }
  const std::string& output() const { return output_->path(); }
  std::string manifest_path() const { return ManifestPath(output(), options_.rank); }
  std::string prepared_manifest_path() const {
    return PreparedManifestPath(output(), options_.rank);
  }
  // The last commit at the time of Open, and the directory that holds its manifest.
  const std::optional<RunState>& committed() const { return found_.state; }
  const std::string& committed_in() const { return found_.directory; }
  // What the commit reads in place, where this run goes on from it with the same ranks.
  const InPlaceUnits& committed_in_place() const { return found_.in_place; }
  // The tile size of the commit, 0 without one.
  uint64_t committed_tile_parameters() const { return found_.tile_parameters; }
  // Null without --persist.
  CommitCopies* copies() { return copies_.get(); }
  // What a run that was killed while it made a copy had left to do: copies the commit in
  // OUTPUT, in the background, or removes older ones. `ranks`: where there are several. REQUIRES:
  // after OpenStore of all ranks, where that is called at all.
  absl::Status FinishCopies(Collectives* ranks);

  // The store of this run, in the state of the last commit or empty. Moves it when the
  // swap paths are others than the commit's. Fills in where it is, for later commits.
  // First removes what an earlier run left, as told, and says so. kResourceExhausted, with
  // nothing touched, where a file system has no room for all that the run will write there.
  // `in_place`: the frozen units that are in the model's files; of those a run that goes on reads
  // there what it has read there before.
  absl::StatusOr<std::unique_ptr<SwapStore>> OpenStore(const StateLayout& layout,
                                                       const SpillRoom& spill, RunState& state,
                                                       const InPlaceUnits& in_place = {});

  // After OpenStore of all ranks: where the state was moved, commits it in its new place, which
  // replaces the commit that it came from. `ranks`: where there are several.
  absl::Status CommitMove(SwapStore* store, Collectives* ranks);

  // Instead of OpenStore, where the run needs no store: the same with what was left.
  absl::Status OpenNone();

  // kUnavailable where somebody removed a file or directory that the run works in: there is
  // nothing that could be committed any more.
  absl::Status CheckStillThere() const;

 private:
  RunStorage(const TrainOptions& options, FileSystem& files) : options_(options), files_(files) {}
  // kAlreadyExists where an earlier run is in the way and nothing was said of it.
  absl::Status CheckMayBegin() const;
  absl::Status RemoveEarlier();
  // Locks the swap directories, and says in --persist whose copies it holds from now on.
  absl::Status LockSwap(const std::vector<std::string>& paths);
  // kResourceExhausted where what the run will write has no room; the swap files of `existing` are
  // there already.
  absl::Status CheckRoom(const StateLayout& layout, const StoreOptions& store,
                         const std::vector<std::string>& existing) const;
  // Gives the commit in OUTPUT the name that later ones have, where an earlier version went by the
  // name of the folder.
  absl::Status RenameManifest();
  // Whether the store of the commit in OUTPUT lies below `parents`: what lay in an OUTPUT that was
  // moved does so again.
  bool StoreIsBelow(const std::vector<std::string>& parents) const;
  // The store of the commit in OUTPUT, where it is.
  absl::StatusOr<std::unique_ptr<SwapStore>> OpenCommitted(const StateLayout& layout,
                                                           const SpillRoom& spill);
  // Removes what ranks had that this run has not.
  void RemoveMoreRanks();
  // Removes what the replaced commit was on, of this run.
  void RemoveFormerSwap();
  bool CommitRefersToSwap() const;

  const TrainOptions options_;
  FileSystem& files_;
  std::unique_ptr<OutputDirectory> output_;
  std::string first_output_;     // OUTPUT of all ranks
  std::string first_directory_;  // of the commit that all ranks go on from
  std::unique_ptr<CommitCopies> copies_;
  FoundCommit found_;
  std::optional<RunState> freed_;  // what OUTPUT held, where there is no commit to go on from
  std::optional<RunState> moved_;  // the commit to be made of what OpenStore moved
  std::unique_ptr<EarlierRun> earlier_;
  SwapDirectories swap_{&files_};
};

}  // namespace spillway
