#include "swap/mover/worker_pool.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <utility>

#include "io/base/check.h"
#include "io/base/thread_name.h"

namespace spillway {

WorkerPool::WorkerPool(int threads, Executor* executor)
    : num_threads_(threads), executor_(executor) {
  SPILLWAY_CHECK(threads > 0);  // jobs would never run
  if (executor_ != nullptr) return;
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
  } catch (const std::system_error&) {
    Stop();  // those that did start
    throw;
  }
}

WorkerPool::~WorkerPool() { Stop(); }

void WorkerPool::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Run(std::function<void()> job) { RunFirst(INT64_MAX, std::move(job)); }

void WorkerPool::RunFirst(int64_t needed_by_op, std::function<void()> job) {
  if (executor_ != nullptr) return executor_->Run(std::move(job));
  MutexLock lock(mutex_);
  const auto later = [](int64_t op, const Job& other) { return op < other.needed_by_op; };
  jobs_.insert(std::upper_bound(jobs_.begin(), jobs_.end(), needed_by_op, later),
               {needed_by_op, std::move(job)});
  changed_.NotifyOne();
}

void WorkerPool::Loop() {
  NameThisThread("spill-worker");
  while (true) {
    std::function<void()> job;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && jobs_.empty()) changed_.Wait(mutex_);
      if (jobs_.empty()) return;
      job = std::move(jobs_.front().run);
      jobs_.pop_front();
    }
    const auto start = std::chrono::steady_clock::now();
    job();
    busy_nanoseconds_ += (std::chrono::steady_clock::now() - start).count();
  }
}

}  // namespace spillway
