// Options for commits, resume and copies of commits. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

// --commit-every auto: seconds between commits, extended so that commits cost at most this fraction
// of the run's time.
inline constexpr double kAutoCommitSeconds = 15 * 60;
inline constexpr double kAutoCommitCostPart = 0.01;

struct CommitOptions {
  // Commits in addition to those at a signal and at the end: every `commit_every` steps, or every
  // `commit_seconds`; 0: none.
  int64_t commit_every = 0;
  double commit_part = 0;  // if > 0, commit_every becomes this fraction of the run's steps
  double commit_seconds = 0;
  double commit_cost_part = 0;  // maximum fraction of time for commits by time; 0: no maximum
  bool no_commit = false;       // no commits, and one slot for each tile
  bool resume = false;          // continue from OUTPUT's commit, if there is one
  bool overwrite = false;       // remove an earlier run of OUTPUT
  std::vector<std::string> allow_change;  // settings of ChangeableNames that a resume may change
  std::string persist;                    // directory for copies of commits; empty: none
  int keep = 1;                           // number of copies that are kept

  // Directory of the model's files. Files that a commit reads in place are searched here if they
  // have moved. Empty: none.
  std::string model_directory;

  // Size of the export OUTPUT/model/, for the check of free space; 0: no export.
  uint64_t export_bytes_per_parameter = 0;
};

}  // namespace spillway
