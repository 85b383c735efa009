// Makes commits, one at a time.
//
// A commit of one version waits for that version's updates, lets the state that only lives in
// memory be saved, and then waits for the disk on a thread of its own. Only updates to later
// versions wait for the commit.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "swap/mover/mover_context.h"
#include "swap/mover/passes.h"
#include "swap/mover/swap_types.h"

namespace spillway {

// The mover's thread. A commit that fails is the mover's failure, unless the manifest could not be
// made or had no room on the disk: then the commit is lost, a warning is logged, and the commit
// before stays the last one.
class Committer {
 public:
  using Done = MoverThread::Done;
  // `executor` null: the commit has a thread of its own.
  Committer(const MoverContext& context, Passes* passes, Executor* executor);

  // Starts a commit of the newest version (SwapManager::StartCommit). REQUIRES: a store of two
  // slots, no commit under way.
  void Start(const std::string& manifest_path, CommitRecord record, std::function<void()> at_end,
             PublishCommitHere publish);
  // Takes the commit as far as it can go now.
  void Advance();
  // Calls `done` once no commit is under way: with OK, or with the reason why the last one was
  // lost. REQUIRES: nobody else waits.
  void Await(Done done);
  void FailWaiter(const absl::Status& status);
  // No thread waits for the disk.
  bool at_rest() const { return run_ == nullptr || run_->phase != Phase::kSyncing; }

 private:
  enum class Phase : uint8_t {
    kUpdating,  // updates that it contains are under way
    kSaving,    // passes that save are under way
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
  absl::Status lost_;  // why the last commit was lost; OK: it was not
  Done waiter_;
  WorkerPool thread_;
};

}  // namespace spillway
