// The mover's thread: how others talk to it, and how a failure spreads.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "io/base/mutex.h"
#include "io/io_engine.h"

namespace spillway {

// Tasks are posted from any thread and run on the mover's, in order of posting; so the state that
// they touch needs no locks. The first failure stays: nothing new is begun after it, what is under
// way comes to its end, and every later call gets it.
class MoverThread {
 public:
  using Task = std::function<void()>;
  using Done = std::function<void(absl::Status)>;
  // Runs what was posted, starts all that can start, and waits until something happens. False
  // once everything is at rest and the thread shall end.
  using Round = std::function<bool()>;

  // `engine`, whose Poll the rounds wait in, outlives this.
  explicit MoverThread(IoEngine* engine) : engine_(engine) {}
  ~MoverThread();
  MoverThread(const MoverThread&) = delete;
  MoverThread& operator=(const MoverThread&) = delete;

  // Rounds go on until one returns false. Not `threaded`: no thread is started, and whoever waits
  // in Call or Stop runs the rounds.
  void Start(Round round, bool threaded);
  // Waits until everything under way has ended. Afterwards no round runs any more.
  void Stop();

  // --- Any thread.
  void Post(Task task);
  // Runs `task` as one that is posted, and waits until it calls its `done`. After a failure it is
  // not run, and the failure comes back; of one that waits then, once nothing is under way any
  // more, so what `task` points to stays alive for as long as anybody may use it.
  absl::Status Call(const std::function<void(Done)>& task);
  // Wakes the mover's thread, which tells those who wait.
  void Fail(const absl::Status& status);
  // True also when the thread shall end: then nothing new is begun either.
  bool failed() const { return failed_; }
  absl::Status error() const;

  // --- The mover's thread.
  // Runs what was posted. False when the thread shall end.
  bool RunPosted();
  // Something has happened that another part may wait for, and nobody else will wake us for it.
  void NoteProgress() { progress_ = true; }
  bool TakeProgress() { return std::exchange(progress_, false); }

 private:
  IoEngine* const engine_;
  Round round_;
  std::thread thread_;
  bool progress_ = false;
  std::vector<Task> running_;  // of RunPosted
  std::atomic<bool> failed_{false};

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Task> inbox_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace spillway
