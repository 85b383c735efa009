// Copies of commits in a directory that outlives the job's scratch disks (--persist):
// DIR/step-000000000012/ holds one, complete when its manifest is there, and of several ranks those
// of all of them: each copies its own part, into DIR/step-N/ranks/r as in OUTPUT. Such a folder
// can be moved, inspected and exported from like an OUTPUT.
//
// DIR is known by the directory that was opened, not by its path: one that is removed, moved away,
// unmounted or mounted over while the run works gets no copies, and none is made in its place. A
// record in it says whose copies it holds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "engine/run/run_directory.h"
#include "io/base/mutex.h"
#include "io/file_system.h"
#include "swap/mover/executor.h"
#include "swap/mover/worker_pool.h"
#include "swap/plan/state_layout.h"
#include "swap/store/swap_store.h"

namespace spillway {

class CommitCopies {
 public:
  struct Copy {
    int64_t step = 0;
    std::string directory;
    std::string name;  // of that, in the directory of the copies
  };

  struct Options {
    int keep = 1;  // how many stay, the newest
    int rank = 0;
    int ranks = 1;
    std::string model_directory = {};  // as of SwapStore::Open
    FileSystem* files = &FileSystem::Real();
    Executor* executor = nullptr;  // makes the copies, where there is one, in place of a thread
  };

  // The first rank locks `directory` (created where missing) and finds the copies; it alone removes
  // any. Refuses what somebody else put among them (engine/run/copy_folder.h). The others open it
  // after the first one: kFailedPrecondition where they do not see it.
  static absl::StatusOr<std::unique_ptr<CommitCopies>> Open(const std::string& directory,
                                                            const Options& options);
  // Waits for the copy under way. Takes the directory back if Open made it and nothing came
  // into it.
  ~CommitCopies();

  const std::string& directory() const { return directory_; }
  // Whether Open made it.
  bool created() const { return created_; }
  // The first rank's: it has the record of the run whose copies these are, as a swap directory has.
  const RunDirectory& locked() const { return *lock_; }
  // Whether there are any, whole or not.
  bool any() const { return !found_.empty() || !unfinished_.empty(); }
  // Those that were there at Open, newest first. Of the first rank; others have none.
  const std::vector<Copy>& found() const { return found_; }

  // What `keep` copies and the one being written take more than those that are there;
  // `afresh` when these are going to be removed. Of `in_place` none takes anything. The first rank
  // speaks for all, whose shards are like its own (`layout`); of another it is 0.
  uint64_t NeededBytes(const StateLayout& layout, const InPlaceUnits& in_place = {},
                       bool afresh = false) const;
  // kResourceExhausted when there is no room for that.
  absl::Status CheckSpace(const StateLayout& layout, const InPlaceUnits& in_place = {},
                          bool afresh = false) const;

  // Takes away what a killed run left unfinished, or everything, and says how much.
  absl::Status RemoveUnfinished();
  absl::Status RemoveAll();
  // Of a run that goes on from the commit of `step`: takes away what is unfinished, and later
  // copies. Whether there is one of this commit.
  absl::StatusOr<bool> GoOnFrom(int64_t step);

  // Begins to copy this rank's part of the commit that `manifest_path` names, and returns. Until
  // Wait returns that commit must stay. Any thread. REQUIRES: none is under way.
  void Start(const std::string& manifest_path);

  // Waits for the copy under way, and returns how the last one went. kUnavailable where the
  // directory is not there any more, or is another one.
  absl::Status Wait();
  // "3 commits were not copied to /backup (the last one's reason)", of this process; "": all were.
  // The first rank's speaks for all ranks.
  std::string Missed();
  // Waits so long at most. Whether no copy is under way any more.
  bool WaitFor(double seconds);

  // With one rank every copy does this at its end; of several the first one does it, once all have
  // made their parts of the last copy, or (`made`: false) some have not, and no rank makes one.
  // Then older copies go, or this one. kFailedPrecondition where the others' parts are not seen.
  absl::Status Conclude(bool made);

  // Removes all but the newest `keep` up to `step`, which are durable before. Later ones are of a
  // run that was resumed from before them.
  absl::Status Prune(int64_t step);

 private:
  CommitCopies(std::string directory, const Options& options);
  bool busy();
  bool first() const { return lock_ != nullptr; }
  const OwnDirectory& own() const { return first() ? lock_->own() : *seen_; }
  absl::Status CheckStillThere() const;
  void CountMissed(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Copy> List() const;
  bool IsWhole(const Copy& copy) const;
  absl::Status MakeCopy(const std::string& manifest_path);
  absl::Status CopyPart(const std::string& manifest_path, const SwapStore& from,
                        const CommitRecord& record, const std::string& name) const;
  absl::Status ConcludeStep(int64_t step, bool made);
  absl::Status SyncCopy(const Copy& copy) const;
  absl::Status RemoveCopy(const std::string& name) const;
  // Bytes on the drive.
  uint64_t AllocatedBytes(const std::string& directory) const;
  StoreOptions OptionsOf(const std::string& copy, const InPlaceUnits& in_place) const;

  const std::string directory_;
  std::unique_ptr<RunDirectory> lock_;  // the first rank's
  std::unique_ptr<OwnDirectory> seen_;  // another's
  const Options options_;
  FileSystem& files_ = *options_.files;
  bool created_ = false;
  std::vector<Copy> found_;
  std::vector<Copy> unfinished_;
  Mutex mutex_;
  CondVar changed_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  int64_t missed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string missed_why_ ABSL_GUARDED_BY(mutex_);
  int64_t last_step_ = 0;  // whose copy is, or was, made here; 0: none, or all have concluded it
  WorkerPool thread_;
};

}  // namespace spillway
