// The mover's thread: how other threads post tasks to it, and how a failure reaches every caller.
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
// they touch needs no locks. The first failure stays: after it no work is begun, work that is under
// way ends, and every later call returns the failure.
class MoverThread {
 public:
  using Task = std::function<void()>;
  using Done = std::function<void(absl::Status)>;
  // One round: runs the posted tasks, starts all work that can start, and waits until something
  // happens. False once everything is at rest and the thread shall end.
  using Round = std::function<bool()>;

  // `engine`, whose Poll the rounds wait in, outlives this.
  explicit MoverThread(IoEngine* engine) : engine_(engine) {}
  ~MoverThread();
  MoverThread(const MoverThread&) = delete;
  MoverThread& operator=(const MoverThread&) = delete;

  // Runs rounds until one returns false. Not `threaded`: no thread is started, and the callers that
  // wait in Call or Stop run the rounds. REQUIRES: it was not started before.
  void Start(Round round, bool threaded);
  // Waits until everything under way has ended. Afterwards no round runs any more.
  void Stop();

  // --- Any thread.
  void Post(Task task);
  // Posts `task` and waits until it calls its `done`. After a failure it is not run, and the
  // failure is returned. A call that waits when the failure comes returns only when no work is
  // under way any more, so the objects that `task` points to stay alive as long as they may be
  // used. REQUIRES: not called on the mover's thread.
  absl::Status Call(const std::function<void(Done)>& task);
  // Wakes the mover's thread, which returns the failure to all callers that wait.
  void Fail(const absl::Status& status);
  // True also when the thread shall end, since no work is begun then either.
  bool failed() const { return failed_; }
  absl::Status error() const;

  // --- The mover's thread.
  // Runs the posted tasks. False when the thread shall end.
  bool RunPosted();
  // Something has happened that another part of the mover may wait for: there is another round.
  void NoteProgress() { progress_ = true; }
  bool TakeProgress() { return std::exchange(progress_, false); }

 private:
  IoEngine* const engine_;
  Round round_;
  std::thread thread_;
  bool progress_ = false;
  std::vector<Task> running_;  // the tasks of RunPosted
  std::atomic<bool> failed_{false};

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Task> inbox_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace spillway
