#include "io/block_engine.h"

#include <algorithm>
#include <chrono>

#include "absl/time/time.h"
#include "io/base/check.h"

namespace spillway {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Practically unlimited, and small enough to be added to a clock safely.
constexpr absl::Duration kLongest = absl::Hours(24 * 365);

}  // namespace

void BlockEngine::CheckOwner() {
  if (owner_ == std::thread::id()) owner_ = std::this_thread::get_id();
  SPILLWAY_CHECK(on_owner_thread());
}

void BlockEngine::Submit(IoRequest* request) {
  CheckOwner();
  queue_.Add(request);
}

void BlockEngine::StartBlocks() {
  while (IoBlock* block = queue_.Next()) Start(block);
}

size_t BlockEngine::Poll(absl::Duration timeout) {
  CheckOwner();
  SPILLWAY_CHECK(!polling_);  // not from inside a callback
  polling_ = true;
  timeout = std::clamp(timeout, absl::ZeroDuration(), kLongest);
  const auto deadline = SteadyClock::now() + absl::ToChronoNanoseconds(timeout);
  for (;;) {
    StartBlocks();
    const absl::Duration left = queue_.has_completed()
                                    ? absl::ZeroDuration()
                                    : absl::FromChrono(deadline - SteadyClock::now());
    absl::Duration wait = std::clamp(left, absl::ZeroDuration(), absl::Hours(24));
    // Only the queue knows when a paused block resumes.
    if (const auto pause_ns = queue_.PauseNanoseconds()) {
      wait = std::min(wait, absl::Nanoseconds(*pause_ns));
    }
    const bool woken = Exchange(wait);
    if (woken || queue_.has_completed() || left <= absl::ZeroDuration()) break;
  }
  // The device works on while the callbacks run...
  StartBlocks();
  Flush();
  const size_t count = queue_.RunCallbacks();
  // ...and on what they submitted while the caller does something else.
  StartBlocks();
  Flush();
  polling_ = false;
  return count;
}

}  // namespace spillway
