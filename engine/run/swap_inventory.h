// Lists the directories of runs below a swap path: the owner of each, and whether its content may
// still be needed. `spillway clean` and train's notice use it. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "io/file_system.h"

namespace spillway {

// "spillway-ID-rank0.N": the N-th store of the run with this id.
std::string SwapDirectoryName(const std::string& id, int store_number);
bool IsSwapDirectoryName(absl::string_view name);
// The files of a store in each of its directories.
const std::vector<std::string>& SwapFileNames();

// The content of OUTPUT/run-id, created when a run first makes swap files. Empty if there is none.
std::string ReadRunId(const std::string& output, FileSystem& files = FileSystem::Real());
absl::StatusOr<std::string> CreateRunId(const std::string& output,
                                        FileSystem& files = FileSystem::Real());
inline constexpr char kRunIdName[] = "run-id";

struct SwapRun {
  enum class State {
    kInUse,      // a process holds its lock
    kResumable,  // the commit in its OUTPUT names it, or a rank's prepared part there does
    kDead,       // nothing refers to it
    kElsewhere,  // of another machine, whose OUTPUT is not visible here
    kUnknown,    // undecided: another user's, an unreadable commit, an earlier version's, or a
                 // that waits for a commit that may not come
  };
  std::string path;
  State state = State::kUnknown;
  std::string reason;     // "its OUTPUT /scratch/out is gone"
  std::string output;     // "" if not known
  bool finished = false;  // the commit that names it is of a finished run
  uint64_t allocated_bytes = 0;
  int64_t started_seconds = 0;   // since 1970; 0: not known
  int64_t modified_seconds = 0;  // of its newest file
};
const char* SwapRunStateName(SwapRun::State state);

// All directories of runs below `parent`, by name. kNotFound if `parent` does not exist.
absl::StatusOr<std::vector<SwapRun>> FindSwapRuns(const std::string& parent);

// Checks again under the run's lock, removes its files and directory if it is still dead, and
// returns the bytes freed. kFailedPrecondition if it is not dead any more.
absl::StatusOr<uint64_t> RemoveDeadRun(const SwapRun& run);

// Warns of large dead runs below `parent`, with the command that lists them.
void WarnOfDeadRuns(const std::string& parent);

}  // namespace spillway
