#include "swap/mover/mover_thread.h"

#include <utility>

#include "io/base/check.h"
#include "io/base/thread_name.h"

namespace spillway {

MoverThread::~MoverThread() { SPILLWAY_CHECK(!thread_.joinable()); }

void MoverThread::Start(Round round, bool threaded) {
  SPILLWAY_CHECK(round_ == nullptr);
  round_ = std::move(round);
  if (!threaded) return;
  thread_ = std::thread([this] {
    NameThisThread("spill-mover");
    while (round_()) {
    }
  });
}

void MoverThread::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  engine_->Wake();
  if (thread_.joinable()) return thread_.join();
  while (round_()) {
  }
}

void MoverThread::Post(Task task) {
  {
    MutexLock lock(mutex_);
    inbox_.push_back(std::move(task));
  }
  engine_->Wake();
}

absl::Status MoverThread::Call(const std::function<void(Done)>& task) {
  SPILLWAY_CHECK(std::this_thread::get_id() != thread_.get_id());  // it would wait for itself
  bool finished = false;
  absl::Status result;
  const Done done = [&](absl::Status status) {
    MutexLock lock(mutex_);
    result = std::move(status);
    finished = true;
    changed_.NotifyAll();
  };
  Post([&] { failed() ? done(error()) : task(done); });
  if (!thread_.joinable()) {
    while (!finished) round_();
    return result;
  }
  MutexLock lock(mutex_);
  while (!finished) changed_.Wait(mutex_);
  return result;
}

void MoverThread::Fail(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    if (error_.ok()) error_ = status;
    failed_ = true;
  }
  engine_->Wake();
}

absl::Status MoverThread::error() const {
  MutexLock lock(mutex_);
  return error_;
}

bool MoverThread::RunPosted() {
  bool stopping;
  {
    MutexLock lock(mutex_);
    running_.swap(inbox_);
    stopping = stopping_;
  }
  for (Task& task : running_) task();
  running_.clear();
  if (stopping) failed_ = true;  // begin nothing new
  return !stopping;
}

}  // namespace spillway
