// The state that a finished run keeps on its drives for --resume, and how it is freed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/run/run_state.h"
#include "engine/run/swap_inventory.h"

namespace spillway {

struct KeptState {
  RunState state;             // of the first rank's commit
  bool freed = false;         // it is no commit any more; what is left is of a call that was killed
  std::vector<SwapRun> runs;  // the directories of all ranks, as far as this machine has them

  uint64_t bytes() const;
  // The folders that they lie in: "/nvme1, /nvme2".
  std::string Places() const;
};

// The kept state of the run in `output`. kNotFound if it has no commit and was not freed.
absl::StatusOr<KeptState> FindKeptState(const std::string& output);

// Makes the commit of a finished run none (FreedManifestPath), then removes the directories that it
// named, and returns the bytes that this freed. Whatever the moment of a kill: before the first
// rank's manifest is renamed nothing has changed, and after it another call does the rest.
// kFailedPrecondition, with nothing touched, where a process works on the run, it is not finished,
// or OUTPUT holds no exported model or adapter (but `without_model`). A warning names what stays,
// as another machine's does.
absl::StatusOr<uint64_t> FreeKeptState(const std::string& output, bool without_model);

// The OUTPUT of all ranks, of one rank's.
std::string OutputOfAllRanks(const std::string& rank_output);

}  // namespace spillway
