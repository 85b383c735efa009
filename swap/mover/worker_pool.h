// A few threads for arithmetic on tiles, beside the compute thread.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "io/base/mutex.h"
#include "swap/mover/executor.h"

namespace spillway {

// Jobs run in the order given, but those of RunFirst before others, on whichever thread is free.
// The destructor runs all remaining jobs and then joins. The caller bounds the number of jobs: the
// mover starts at most a few for each tile buffer.
class WorkerPool {
 public:
  // With an executor jobs are given to it and run in its order, and no thread is started. Throws
  // std::system_error where the system has no more threads. REQUIRES: `threads` is positive.
  explicit WorkerPool(int threads, Executor* executor = nullptr);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Any thread.
  void Run(std::function<void()> job);
  // Runs the job before all jobs that wait for a thread, except those that an earlier operation
  // needs and those given before that the same operation needs.
  void RunFirst(int64_t needed_by_op, std::function<void()> job);

  int threads() const { return num_threads_; }

  // Wall time that threads have spent in jobs, all together. Any thread.
  double busy_seconds() const { return busy_nanoseconds_.load() * 1e-9; }

 private:
  struct Job {
    int64_t needed_by_op;
    std::function<void()> run;
  };
  void Loop();
  void Stop();

  const int num_threads_;
  Executor* const executor_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);  // by needed_by_op, the others at the end
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<int64_t> busy_nanoseconds_{0};
  std::vector<std::thread> threads_;
};

}  // namespace spillway
