// Commits, one under way at most.
//
// A commit of one version waits for its updates, has what only lives in memory saved, and then a
// thread of its own waits for the disk. Updates to later versions wait for that, and nothing else
// does.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "swap/mover/mover_context.h"
#include "swap/mover/passes.h"
#include "swap/mover/swap_types.h"

namespace spillway {

// The mover's thread. A commit that fails is the mover's failure, unless there only was no manifest
// to write or no room for it: then it is lost, a warning says so, and the commit before stays the
// last.
class Committer {
 public:
  using Done = MoverThread::Done;
  // `executor` null: the commit has a thread of its own.
  Committer(const MoverContext& context, Passes* passes, Executor* executor);

  // As SwapManager::StartCommit. REQUIRES: a store of two slots, no commit under way.
  void Start(const std::string& manifest_path, CommitRecord record, std::function<void()> at_end,
             PublishCommitHere publish);
  // Goes on where it can.
  void Advance();
  // Once no commit is under way: OK, or why the last one was lost.
  void Await(Done done);
  void FailWaiter(const absl::Status& status);
  // No thread waits for the disk.
  bool at_rest() const { return run_ == nullptr || run_->phase != Phase::kSyncing; }

 private:
  enum class Phase : uint8_t {
    kUpdating,  // updates that it holds are under way
    kSaving,    // as are passes that save
    kSyncing,   // the commit's thread waits for the disk
  };
  struct Run {
    std::string manifest_path;
    CommitRecord record;
    int64_t version = 0;  // of the state that it holds
    std::function<void()> at_end;
    PublishCommitHere publish;
    Phase phase = Phase::kUpdating;
  };
  void StartSaves();
  void Sync();
  void Synced(const absl::Status& status, bool only_lost);

  const MoverContext& context_;
  SwapStore* const store_ = context_.store;
  Passes* const passes_;
  std::unique_ptr<Run> run_;
  absl::Status lost_;  // why the last one was
  Done waiter_;
  WorkerPool thread_;
};

}  // namespace spillway
