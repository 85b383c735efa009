// Decides when a run commits between its steps: after a number of steps, or by time. Callers pass
// the current time.
#pragma once

#include <cstdint>
#include <string>

#include "engine/options/commit_options.h"

namespace spillway {

class CommitSchedule {
 public:
  // `cost_seconds`: forecast of the time that a commit delays the run; 0 if unknown.
  explicit CommitSchedule(const CommitOptions& options, double cost_seconds = 0)
      : options_(options), cost_seconds_(cost_seconds) {}

  // The first step begins. Times are in seconds of any monotonic clock.
  void Begin(double now) { last_began_ = now; }

  // Whether a commit is due after `step`.
  bool IsDueBySteps(int64_t step) const;
  // Whether a commit is due by time; with options.commit_cost_part, not before the last one's cost
  // is at most that part of the time since.
  bool IsDueByTime(double now) const;

  // Call when a commit begins.
  void CommitBegan(double now);
  // Adds time that the run has waited for the last commit, or for its start.
  void CountWait(double seconds) { waited_seconds_ += seconds; }

  // Returns "about every 15 min, and at the end", for the plan's text.
  std::string Describe() const;

 private:
  bool by_time() const { return options_.commit_seconds > 0 && !options_.no_commit; }
  // Minimum interval between commits.
  double interval_seconds() const;

  const CommitOptions options_;
  const double cost_seconds_;
  double last_began_ = 0;
  double waited_seconds_ = 0;  // for the last commit
};

}  // namespace spillway
