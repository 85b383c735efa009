// When a run commits between its steps: after every so many of them, or by time. Whoever asks says
// what time it is.
#pragma once

#include <cstdint>
#include <string>

#include "engine/options/commit_options.h"

namespace spillway {

class CommitSchedule {
 public:
  // `cost_seconds`: how long a commit holds up the run, as the plan forecasts it; 0 where it can't.
  explicit CommitSchedule(const CommitOptions& options, double cost_seconds = 0)
      : options_(options), cost_seconds_(cost_seconds) {}

  // The first step begins. Times are in seconds, of any clock that only goes forward.
  void Begin(double now) { last_began_ = now; }

  // Whether a commit is due after `step`.
  bool IsDueBySteps(int64_t step) const;
  // Whether one is due by time: where options.commit_cost_part says so, no sooner than the last one
  // has cost that part of the time since.
  bool IsDueByTime(double now) const;

  // A commit begins.
  void CommitBegan(double now);
  // The run has waited so long for the last commit, or for beginning it.
  void CountWait(double seconds) { waited_seconds_ += seconds; }

  // "about every 15 min, and at the end": for the plan's lines.
  std::string Describe() const;

 private:
  bool by_time() const { return options_.commit_seconds > 0 && !options_.no_commit; }
  // How far commits are apart; at least.
  double interval_seconds() const;

  const CommitOptions options_;
  const double cost_seconds_;
  double last_began_ = 0;
  double waited_seconds_ = 0;  // for the last commit
};

}  // namespace spillway
