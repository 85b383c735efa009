// The files of a run, old and new: OUTPUT with the manifest (output_directory.h), a directory of
// its own below every swap path (swap_directories.h), and copies of commits (--persist).
// docs/RUNS.md says which files stay when.
//
// Large because the decisions to begin, continue, move or reshard a store use the same findings.
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
  // Locks OUTPUT (created if missing) and reads the last commit, if there is one; with --persist
  // the newest good one, in OUTPUT or among the copies, after verifying it. With --overwrite none
  // counts. kFailedPrecondition if another process owns OUTPUT or the leftovers of an earlier run
  // below the swap paths; kAlreadyExists if there is a commit, or such leftovers, and neither
  // --resume nor --overwrite; kDataLoss if no commit is good. Nothing is changed then. Each of
  // several ranks opens its own storage (options.output is RankOutput's), the first one first.
  // `first`: for the others, the first rank's commit, which settles theirs (rank_commit.h).
  // `check`: verifies a commit of several ranks. `files` and `executor`, which makes copies if set,
  // outlive the object.
  using FirstRank = FirstRankCommit;
  static absl::StatusOr<std::unique_ptr<RunStorage>> Open(const TrainOptions& options,
                                                          const FirstRank* first = nullptr,
                                                          FileSystem& files = FileSystem::Real(),
                                                          Executor* executor = nullptr,
                                                          const CheckCommit& check = nullptr);
  // Opens the storage of one of several ranks (`world`; null: one rank) together with the others,
  // the first rank's first, since it owns OUTPUT.
  static absl::StatusOr<std::unique_ptr<RunStorage>> OpenTogether(
      const TrainOptions& options, Collectives* world, FileSystem& files = FileSystem::Real(),
      Executor* executor = nullptr);
  // Removes useless files: swap that no commit refers to, and OUTPUT if it has nothing but our
  // lock.
  ~RunStorage();

  FileSystem& files() const { return files_; }
  const std::string& output() const { return output_->path(); }
  std::string manifest_path() const { return ManifestPath(output(), options_.rank); }
  std::string prepared_manifest_path() const {
    return PreparedManifestPath(output(), options_.rank);
  }
  // The last commit at the time of Open, and the directory of its manifest.
  const std::optional<RunState>& committed() const { return found_.state; }
  const std::string& committed_in() const { return found_.directory; }
  // The units that the commit reads in place, if this run continues from it with the same ranks.
  const InPlaceUnits& committed_in_place() const { return found_.in_place; }
  // The tile size of the commit, 0 without a commit.
  uint64_t committed_tile_parameters() const { return found_.tile_parameters; }
  // Null without --persist.
  CommitCopies* copies() { return copies_.get(); }
  // Completes the work of a run that was killed while it made a copy: copies the commit in OUTPUT,
  // in the background, or removes older copies. `ranks`: null if there is one. REQUIRES: OpenStore
  // of all ranks has returned, if it is called at all.
  absl::Status FinishCopies(Collectives* ranks);

  // Opens the store of this run, in the state of the last commit or empty. Moves it if the swap
  // paths differ from the commit's. Sets its place in `state`, for later commits. First removes the
  // leftovers of an earlier run if requested, and logs it. kResourceExhausted, with nothing
  // changed, if a file system has no room for everything that the run will write there. `in_place`:
  // the frozen units that are in the model's files; a resumed run reads those in place that it read
  // in place before.
  absl::StatusOr<std::unique_ptr<SwapStore>> OpenStore(const StateLayout& layout,
                                                       const SpillRoom& spill, RunState& state,
                                                       const InPlaceUnits& in_place = {});

  // After OpenStore of all ranks: if the state was moved, commits it in its new place, which
  // replaces the old commit. `ranks`: null if there is one.
  absl::Status CommitMove(SwapStore* store, Collectives* ranks);

  // Replaces OpenStore if the run needs no store: handles leftovers in the same way.
  absl::Status OpenNone();

  // kUnavailable if a file or directory of the run was removed: nothing could be committed any
  // more.
  absl::Status CheckStillThere() const;

 private:
  RunStorage(const TrainOptions& options, FileSystem& files) : options_(options), files_(files) {}
  // kAlreadyExists if there is an earlier run and neither --resume nor --overwrite.
  absl::Status CheckMayBegin() const;
  absl::Status RemoveEarlier();
  // Locks the swap directories, and writes this run's record into the directory of --persist.
  absl::Status LockSwap(const std::vector<std::string>& paths);
  // kResourceExhausted if there is no room for what the run will write; the swap files of
  // `existing` exist already.
  absl::Status CheckRoom(const StateLayout& layout, const StoreOptions& store,
                         const std::vector<std::string>& existing) const;
  // Renames the commit in OUTPUT to the current name, if an earlier version named it after the
  // folder.
  absl::Status RenameManifest();
  // Whether the store of the commit in OUTPUT is below `parents`; for an OUTPUT that was moved,
  // paths inside it count at their new place.
  bool StoreIsBelow(const std::vector<std::string>& parents) const;
  // Opens the store of the commit in OUTPUT, in its place.
  absl::StatusOr<std::unique_ptr<SwapStore>> OpenCommitted(const StateLayout& layout,
                                                           const SpillRoom& spill);
  // Removes the directories of ranks that this run does not have.
  void RemoveMoreRanks();
  // Removes this run's directories that the replaced commit used.
  void RemoveFormerSwap();
  bool CommitRefersToSwap() const;

  const TrainOptions options_;
  FileSystem& files_;
  std::unique_ptr<OutputDirectory> output_;
  std::string first_output_;     // OUTPUT of all ranks
  std::string first_directory_;  // of the commit that all ranks continue from
  std::unique_ptr<CommitCopies> copies_;
  FoundCommit found_;
  std::optional<RunState> freed_;  // state in OUTPUT, if there is no commit to continue from
  std::optional<RunState> moved_;  // the commit to be made after OpenStore has moved the state
  std::unique_ptr<EarlierRun> earlier_;
  SwapDirectories swap_{&files_};
};

}  // namespace spillway
