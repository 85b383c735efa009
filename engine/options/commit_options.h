// Options of commits, resume and the run's output. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

// --commit-every auto: seconds between commits, extended if needed so that commits cost at most
// this fraction of the run's time.
inline constexpr double kAutoCommitSeconds = 15 * 60;
inline constexpr double kAutoCommitCostPart = 0.01;

struct CommitOptions {
  // Steps or time between commits, besides those at a signal and at the end; both 0: none.
  int64_t commit_every = 0;
  double commit_part = 0;  // above 0: commit_every becomes this fraction of the run's steps
  double commit_seconds = 0;
  double commit_cost_part = 0;  // fraction of time that timed commits may cost; 0: unlimited
  bool no_commit = false;
  bool resume = false;
  bool overwrite = false;                 // remove an earlier run of OUTPUT
  std::vector<std::string> allow_change;  // settings that --resume may change (ChangeableNames)
  std::string persist;
  int keep = 1;

  // Directory of the model's files: searched for weights that a commit reads in place and that have
  // moved. Empty: none.
  std::string model_directory;

  // Size of OUTPUT/model/ at the end, for the check of free space; 0: no export.
  uint64_t export_bytes_per_parameter = 0;
};

}  // namespace spillway
