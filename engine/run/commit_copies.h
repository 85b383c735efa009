// Copies of commits in a directory that outlives the job's scratch disks (--persist):
// DIR/step-000000000012/ holds one, complete when its manifest is there. Such a folder
// can be moved, inspected and exported from like an OUTPUT.
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

  // Locks `directory` (created where missing) and finds the copies. `keep`: how many stay,
  // the newest. Refuses what somebody else put among them (engine/run/copy_folder.h). With an
  // executor copies are made there, and by no thread of its own.
  static absl::StatusOr<std::unique_ptr<CommitCopies>> Open(const std::string& directory, int keep,
                                                            FileSystem& files = FileSystem::Real(),
                                                            Executor* executor = nullptr);
  // Waits for the copy under way. Takes the directory back if Open made it and nothing came
  // into it.
  ~CommitCopies();

  const std::string& directory() const { return lock_->path(); }
  // Those that were there at Open, newest first.
  const std::vector<Copy>& found() const { return found_; }

  // What `keep` copies and the one being written take more than those that are there;
  // `afresh` when these are going to be removed. Of `in_place` none takes anything.
  uint64_t NeededBytes(const StateLayout& layout, const InPlaceUnits& in_place = {},
                       bool afresh = false) const;
  // kResourceExhausted when there is no room for that.
  absl::Status CheckSpace(const StateLayout& layout, const InPlaceUnits& in_place = {},
                          bool afresh = false) const;

  // Takes away what a killed run left unfinished, or everything, and says how much.
  absl::Status RemoveUnfinished();
  absl::Status RemoveAll();

  // Begins to copy the commit that `manifest_path` names, and returns. Until Wait returns
  // that commit must stay. Any thread. REQUIRES: none is under way.
  void Start(const std::string& manifest_path);

  // Waits for the copy under way, and returns how the last one went.
  absl::Status Wait();
  // Waits so long at most. Whether no copy is under way any more.
  bool WaitFor(double seconds);

  // Removes all but the newest `keep` up to `step`, which are durable before. Later ones are of a
  // run that was resumed from before them. Every copy does this at its end.
  absl::Status Prune(int64_t step);

 private:
  CommitCopies(std::unique_ptr<RunDirectory> lock, int keep, FileSystem& files, Executor* executor);
  bool busy();
  std::vector<Copy> List() const;
  absl::Status MakeCopy(const std::string& manifest_path);
  absl::Status RemoveCopy(const std::string& name) const;
  // Bytes on the drive.
  uint64_t AllocatedBytes(const std::string& directory) const;
  StoreOptions OptionsOf(const std::string& copy, const InPlaceUnits& in_place) const;

  std::unique_ptr<RunDirectory> lock_;
  const int keep_;
  FileSystem& files_;
  Executor* const executor_;
  bool created_ = false;
  std::vector<Copy> found_;
  std::vector<Copy> unfinished_;
  Mutex mutex_;
  CondVar changed_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  WorkerPool thread_;
};

}  // namespace spillway
