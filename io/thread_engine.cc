#include "io/thread_engine.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "io/base/status.h"
#include "io/base/thread_name.h"

namespace spillway {
namespace {

int64_t Transfer(const IoBlock& block) {
  const ssize_t moved = block.op == IoOp::kRead ? ::pread(block.fd, block.data, block.size_bytes,
                                                          static_cast<off_t>(block.offset_bytes))
                                                : ::pwrite(block.fd, block.data, block.size_bytes,
                                                           static_cast<off_t>(block.offset_bytes));
  return moved < 0 ? -errno : moved;
}

// The pool's threads block all signals, which the program's own threads handle.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ThreadEngine>> ThreadEngine::Create(const IoEngineOptions& options,
                                                                   IoFeatures features) {
  std::unique_ptr<ThreadEngine> engine(new ThreadEngine(options, std::move(features)));
  const SignalsBlocked signals_blocked;
  for (uint32_t i = 0; i < options.threads; ++i) {
    // The standard library reports this failure only by throwing.
    try {
      engine->threads_.emplace_back([e = engine.get()] {
        NameThisThread("spill-io");
        e->Work();
      });
    } catch (const std::system_error& error) {
      return ErrnoStatus(error.code().value(),
                         absl::StrCat("start I/O thread ", i + 1, " of ", options.threads));
    }
  }
  return engine;
}

ThreadEngine::~ThreadEngine() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
    to_do_.clear();
  }
  work_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadEngine::Work() {
  mutex_.Lock();
  for (;;) {
    while (to_do_.empty() && !ending_) {
      ++idle_threads_;
      work_.Wait(mutex_);
      --idle_threads_;
    }
    if (ending_) break;
    IoBlock* block = to_do_.front();
    to_do_.pop_front();
    mutex_.Unlock();
    const int64_t result = Transfer(*block);
    mutex_.Lock();
    finished_.emplace_back(block, result);
    news_.NotifyOne();
  }
  mutex_.Unlock();
}

void ThreadEngine::Start(IoBlock* block) { started_.push_back(block); }

// Takes the lock once for all started blocks, and wakes only idle threads: a busy one takes the
// next block by itself.
void ThreadEngine::Flush() {
  if (started_.empty()) return;
  size_t wake;
  {
    MutexLock lock(mutex_);
    to_do_.insert(to_do_.end(), started_.begin(), started_.end());
    wake = std::min<size_t>(started_.size(), idle_threads_);
  }
  started_.clear();
  for (; wake > 0; --wake) work_.NotifyOne();
}

bool ThreadEngine::Exchange(absl::Duration wait) {
  Flush();
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(wait);
  std::vector<std::pair<IoBlock*, int64_t>> finished;
  bool woken;
  {
    MutexLock lock(mutex_);
    if (wait > absl::ZeroDuration()) {
      while (finished_.empty() && !woken_ && news_.WaitUntil(mutex_, deadline)) {
      }
    }
    finished.swap(finished_);
    woken = std::exchange(woken_, false);
  }
  for (const auto& [block, result] : finished) queue().Returned(block, result);
  return woken;
}

void ThreadEngine::Wake() {
  // Notifies under the lock: the woken thread may destroy the engine at once.
  MutexLock lock(mutex_);
  woken_ = true;
  news_.NotifyOne();
}

}  // namespace spillway
