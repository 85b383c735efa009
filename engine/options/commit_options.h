// What a run leaves behind, and what it goes on from. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

// --commit-every auto: seconds between commits, extended if needed so that commits cost at most
// this part of the run's time.
inline constexpr double kAutoCommitSeconds = 15 * 60;
inline constexpr double kAutoCommitCostPart = 0.01;

struct CommitOptions {
  // Beside the commits at a signal and at the end: steps, or time, between two; 0: neither.
  int64_t commit_every = 0;
  double commit_part = 0;  // above 0: commit_every becomes this part of the run's steps
  double commit_seconds = 0;
  double commit_cost_part = 0;  // of the time that commits by time may cost; 0: whatever they do
  bool no_commit = false;
  bool resume = false;
  bool overwrite = false;                 // remove an earlier run of OUTPUT
  std::vector<std::string> allow_change;  // what --resume may change, of ChangeableNames
  std::string persist;
  int keep = 1;

  // Where the model's files are: a commit's that are read in place and are not where they were are
  // looked for here. Empty: nowhere.
  std::string model_directory;

  // What OUTPUT/model/ takes at the end, for the check of free space; 0: there is none.
  uint64_t export_bytes_per_parameter = 0;
};

}  // namespace spillway
