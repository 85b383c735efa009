#include "engine/ranks/patient_ranks.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Sent in place of a count: the rank takes part in no more exchanges.
constexpr int64_t kLeft = std::numeric_limits<int64_t>::max();

}  // namespace

PatientRanks::PatientRanks(Collectives* world, Collectives* beats, std::chrono::milliseconds period)
    : world_(*world), beats_(*beats), period_(period), all_(world->size(), 0) {
  SPILLWAY_CHECK(world->size() == beats->size());
  thread_ = std::thread([this] { Beat(); });
}

PatientRanks::~PatientRanks() {
  {
    MutexLock lock(mutex_);
    own_ = kLeft;
    changed_.NotifyAll();
  }
  thread_.join();
}

void PatientRanks::Beat() {
  while (true) {
    int64_t own;
    {
      MutexLock lock(mutex_);
      own = own_;
    }
    absl::StatusOr<std::vector<int64_t>> all = AllGatherCount(beats_, own);
    MutexLock lock(mutex_);
    if (!all.ok()) failure_ = all.status();
    if (all.ok()) all_ = *std::move(all);
    changed_.NotifyAll();
    // All ranks see the same counts, so none goes on alone.
    if (!failure_.ok() || *std::min_element(all_.begin(), all_.end()) == kLeft) return;
    const auto next = std::chrono::steady_clock::now() + period_;
    while (own_ == own && changed_.WaitUntil(mutex_, next)) continue;
  }
}

absl::Status PatientRanks::AwaitAll() {
  MutexLock lock(mutex_);
  const int64_t own = ++own_;
  changed_.NotifyAll();
  while (true) {
    RETURN_IF_ERROR(failure_);
    const auto left = std::find(all_.begin(), all_.end(), kLeft);
    if (left != all_.end()) {
      return absl::UnavailableError(absl::StrCat("rank ", left - all_.begin(), " is gone"));
    }
    if (*std::min_element(all_.begin(), all_.end()) >= own) return absl::OkStatus();
    changed_.Wait(mutex_);
  }
}

absl::Status PatientRanks::Exchange(absl::Span<const char* const> send,
                                    absl::Span<char* const> receive, uint64_t bytes) {
  RETURN_IF_ERROR(AwaitAll());
  return world_.Exchange(send, receive, bytes);
}

void PatientRanks::Abort() {
  world_.Abort();
  beats_.Abort();
}

}  // namespace spillway
