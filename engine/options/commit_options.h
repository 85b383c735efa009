// What a run leaves behind, and what it goes on from. Plain values.
#pragma once

#include <cstdint>
#include <string>

namespace spillway {

struct CommitOptions {
  int64_t commit_every = 0;  // 0: only at a signal and at the end
  bool no_commit = false;
  bool resume = false;
  bool overwrite = false;  // remove an earlier run of OUTPUT
  std::string persist;
  int keep = 1;

  // Where the model's files are: a commit's that are read in place and are not where they were are
  // looked for here. Empty: nowhere.
  std::string model_directory;

  // What OUTPUT/model/ takes at the end, for the check of free space; 0: there is none.
  uint64_t export_bytes_per_parameter = 0;
};

}  // namespace spillway
