// The mover's thread, and how others talk to it. With an executor there is none, and whoever
// waits takes the turns.
#include <utility>

#include "io/base/thread_name.h"
#include "swap/mover/mover.h"
#include "swap/mover/mover_internal.h"

namespace spillway {

SwapManager::Mover::~Mover() {
  if (engine_ == nullptr) return;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  engine_->Wake();
  if (thread_.joinable()) {
    thread_.join();
  } else {
    while (Turn()) {
    }
  }
  // An operation that was begun and not ended may still use the arenas, and what is told when it
  // is done comes here.
  if (device_ != nullptr) device_->Synchronize().IgnoreError();
}

void SwapManager::Mover::Start(std::unique_ptr<IoEngine> engine) {
  engine_ = std::move(engine);
  if (executor_ != nullptr) return;
  thread_ = std::thread([this] {
    NameThisThread("spill-mover");
    while (Turn()) {
    }
  });
}

bool SwapManager::Mover::Turn() {
  std::deque<std::function<void()>> tasks;
  bool stopping;
  {
    MutexLock lock(mutex_);
    tasks.swap(inbox_);
    stopping = stopping_;
  }
  for (auto& task : tasks) task();
  const bool syncing = commit_ != nullptr && commit_->phase == CommitPhase::kSyncing;
  const bool at_rest =
      tasks_running_ == 0 && checks_running_ == 0 && engine_->pending() == 0 && !syncing;
  if (stopping && at_rest) return false;
  if (stopping) failed_ = true;  // start nothing new
  if (failed_ && at_rest) FailWaiters();
  Pump();
  {
    MutexLock lock(mutex_);
    stats_.io = engine_->stats();
  }
  // Wake ends this when something is posted.
  engine_->Poll(absl::Seconds(1));
  return true;
}

void SwapManager::Mover::Post(std::function<void()> task) {
  {
    MutexLock lock(mutex_);
    inbox_.push_back(std::move(task));
  }
  engine_->Wake();
}

absl::Status SwapManager::Mover::Call(const std::function<void(Done)>& task) {
  bool finished = false;
  absl::Status result;
  Post([&] {
    task([&](absl::Status status) {
      MutexLock lock(mutex_);
      result = std::move(status);
      finished = true;
      changed_.NotifyAll();
    });
  });
  if (executor_ != nullptr) {
    while (!finished) Turn();
    return result;
  }
  MutexLock lock(mutex_);
  while (!finished) changed_.Wait(mutex_);
  return result;
}

}  // namespace spillway
