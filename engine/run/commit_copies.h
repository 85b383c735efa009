// Copies of commits in a directory that survives the job's scratch disks (--persist): each is
// DIR/step-000000000012/, complete when its manifest exists, with several ranks the manifests of
// all: each rank copies its own part, into DIR/step-N/ranks/r as in OUTPUT. Such a folder can be
// moved, inspected and exported from like an OUTPUT.
//
// DIR is identified by the directory that was opened, not by its path: if it is removed, moved,
// unmounted or mounted over during the run, it gets no copies, and none is created in its place. A
// record in it names the run that the copies belong to.
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
    std::string name;  // its name in the directory of the copies
  };

  struct Options {
    int keep = 1;  // number of newest copies that are kept
    int rank = 0;
    int ranks = 1;
    std::string model_directory = {};  // as for SwapStore::Open
    FileSystem* files = &FileSystem::Real();
    Executor* executor = nullptr;  // makes the copies, if set, instead of a thread
  };

  // The first rank locks `directory` (created if missing) and finds the copies; it alone removes
  // any. Refuses foreign entries among them (engine/run/copy_folder.h). The others open it after
  // the first one: kFailedPrecondition if they do not see it.
  static absl::StatusOr<std::unique_ptr<CommitCopies>> Open(const std::string& directory,
                                                            const Options& options);
  // Waits for the copy under way. Removes the directory if Open created it and it is still empty.
  ~CommitCopies();

  const std::string& directory() const { return directory_; }
  // Whether Open created it.
  bool created() const { return created_; }
  // On the first rank: the directory has the record of the run that the copies belong to, like a
  // swap directory.
  const RunDirectory& locked() const { return *lock_; }
  // Whether there are any, complete or not.
  bool any() const { return !found_.empty() || !unfinished_.empty(); }
  // Copies that existed at Open, newest first; empty on ranks other than the first.
  const std::vector<Copy>& found() const { return found_; }

  // Bytes that `keep` copies and the one being written need beyond the existing ones; `afresh` if
  // those will be removed. Units in `in_place` need nothing. The first rank counts for all, whose
  // shards equal its own (`layout`); the result is 0 on others.
  uint64_t NeededBytes(const StateLayout& layout, const InPlaceUnits& in_place = {},
                       bool afresh = false) const;
  // kResourceExhausted if there is no room for NeededBytes.
  absl::Status CheckSpace(const StateLayout& layout, const InPlaceUnits& in_place = {},
                          bool afresh = false) const;

  // Removes the unfinished copies of a killed run, or all copies, and logs how much.
  absl::Status RemoveUnfinished();
  absl::Status RemoveAll();
  // For a run that continues from the commit of `step`: removes unfinished and later copies.
  // Returns whether this commit has a copy.
  absl::StatusOr<bool> GoOnFrom(int64_t step);

  // Starts to copy this rank's part of the commit that `manifest_path` names. The commit must exist
  // until Wait returns. Any thread. REQUIRES: no copy is under way.
  void Start(const std::string& manifest_path);

  // Waits for the copy under way, and returns the result of the last one. kUnavailable if the
  // directory no longer exists, or is another one.
  absl::Status Wait();
  // "3 commits were not copied to /backup (the last one's reason)", for this process; "": all were.
  // The first rank's text covers all ranks.
  std::string Missed();
  // Waits at most `seconds`. Returns whether no copy is under way.
  bool WaitFor(double seconds);

  // Ends a copy. With one rank every copy does this itself; of several ranks the first one does,
  // with `made` false if a rank could not make its part. Then older copies are removed, or this
  // one. kFailedPrecondition if the other ranks' parts are not visible.
  absl::Status Conclude(bool made);

  // Removes all but the newest `keep` up to `step`, after making those durable. Later copies are of
  // a run that was resumed from before them.
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
  // Space used on the drive.
  uint64_t AllocatedBytes(const std::string& directory) const;
  StoreOptions OptionsOf(const std::string& copy, const InPlaceUnits& in_place) const;

  const std::string directory_;
  std::unique_ptr<RunDirectory> lock_;  // of the first rank
  std::unique_ptr<OwnDirectory> seen_;  // of the other ranks
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
  int64_t last_step_ = 0;  // of the last copy here; 0: none, or all ranks have concluded it
  WorkerPool thread_;
};

}  // namespace spillway
