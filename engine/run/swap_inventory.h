// The directories of runs below a swap path: whose each is, and whether anybody can still
// need what it holds. What `spillway clean` and train's notice are made from. Any thread.
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
// What a store keeps in each of its directories.
const std::vector<std::string>& SwapFileNames();

// OUTPUT/run-id, drawn when a run first makes swap files. Empty where there is none.
std::string ReadRunId(const std::string& output, FileSystem& files = FileSystem::Real());
absl::StatusOr<std::string> CreateRunId(const std::string& output,
                                        FileSystem& files = FileSystem::Real());
inline constexpr char kRunIdName[] = "run-id";

struct SwapRun {
  enum class State {
    kInUse,      // a process holds its lock
    kResumable,  // the commit in its OUTPUT names it, or a rank's part of one that waits there
    kDead,       // nothing refers to it
    kElsewhere,  // of another machine, whose OUTPUT is not to be seen from here
    kUnknown,  // no telling: another user's, an unreadable commit, an earlier version's, or a part
               // that waits for a commit that may not come
  };
  std::string path;
  State state = State::kUnknown;
  std::string reason;     // "its OUTPUT /scratch/out is gone"
  std::string output;     // "" where not known
  bool finished = false;  // the commit that names it is a finished run's
  uint64_t allocated_bytes = 0;
  int64_t started_seconds = 0;   // 1970; 0: not known
  int64_t modified_seconds = 0;  // its newest file
};
const char* SwapRunStateName(SwapRun::State state);

// All below `parent`, by name. kNotFound where there is no such directory.
absl::StatusOr<std::vector<SwapRun>> FindSwapRuns(const std::string& parent);

// Looks again under the run's lock, removes its files and directory if it is still dead, and
// returns the bytes that this freed. kFailedPrecondition where it is not dead any more.
absl::StatusOr<uint64_t> RemoveDeadRun(const SwapRun& run);

// Warns of dead runs below `parent` that hold a lot, with the command that lists them.
void WarnOfDeadRuns(const std::string& parent);

}  // namespace spillway
