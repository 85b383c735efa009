#include "engine/train/commit_schedule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace spillway {
namespace {

// Returns "0.5 s", "15 min", "5.3 h".
std::string DurationText(double seconds) {
  if (seconds < 120) return absl::StrFormat("%.3g s", seconds);
  if (seconds < 2 * 3600) return absl::StrFormat("%.0f min", seconds / 60);
  return absl::StrFormat("%.3g h", seconds / 3600);
}

}  // namespace

bool CommitSchedule::IsDueBySteps(int64_t step) const {
  return !options_.no_commit && options_.commit_every > 0 && step % options_.commit_every == 0;
}

double CommitSchedule::interval_seconds() const {
  const double cost_seconds = std::max(cost_seconds_, waited_seconds_);
  const double part = options_.commit_cost_part;
  return std::max(options_.commit_seconds, part > 0 ? cost_seconds / part : 0);
}

bool CommitSchedule::IsDueByTime(double now) const {
  return by_time() && now - last_began_ >= interval_seconds();
}

void CommitSchedule::CommitBegan(double now) {
  last_began_ = now;
  waited_seconds_ = 0;
}

std::string CommitSchedule::Describe() const {
  if (options_.no_commit) return "none (--no-commit): there will be nothing to resume from";
  if (options_.commit_every > 0) {
    return options_.commit_every == 1
               ? "after every step"
               : absl::StrCat("every ", options_.commit_every, " steps, and at the end");
  }
  if (!by_time()) return "at the end only, and when a signal stops the run";
  const double interval = interval_seconds();
  const std::string why =
      interval > options_.commit_seconds
          ? absl::StrCat(" (each takes about ", DurationText(cost_seconds_), ")")
          : "";
  return absl::StrCat("about every ", DurationText(interval), why, ", and at the end");
}

}  // namespace spillway
