// The mover's counters, and for tests the order of its events.
#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "io/base/mutex.h"
#include "swap/mover/swap_types.h"

namespace spillway {

// Any thread.
class MoverRecord {
 public:
  // `change(stats)` changes the counters.
  template <class Change>
  void Count(const Change& change) {
    MutexLock lock(mutex_);
    change(stats_);
  }
  SwapStats stats() const {
    MutexLock lock(mutex_);
    return stats_;
  }

  // Events are kept from now on: "update 3" for Event("update", 3).
  void RecordEvents() { record_events_ = true; }
  void Event(absl::string_view what, int unit = -1) {
    if (!record_events_) return;
    MutexLock lock(mutex_);
    events_.push_back(unit < 0 ? std::string(what) : absl::StrCat(what, " ", unit));
  }
  std::vector<std::string> TakeEvents() {
    MutexLock lock(mutex_);
    return std::exchange(events_, {});
  }

 private:
  std::atomic<bool> record_events_{false};
  mutable Mutex mutex_;
  SwapStats stats_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> events_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace spillway
