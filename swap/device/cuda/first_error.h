// The error that broke a device.
#pragma once

#include <atomic>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "io/base/mutex.h"

namespace spillway {

// Any thread. OK until the first Report, and from then on that error.
class FirstError {
 public:
  // Keeps the first error and drops later ones, which mostly follow from it.
  void Report(absl::Status error) {
    MutexLock lock(mutex_);
    if (seen_) return;
    error_ = std::move(error);
    seen_ = true;
  }

  bool seen() const { return seen_; }
  absl::Status status() const {
    MutexLock lock(mutex_);
    return error_;
  }

 private:
  mutable Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> seen_{false};
};

}  // namespace spillway
