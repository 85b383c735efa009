// The state that a finished run keeps on its drives for --resume, and how to free it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/run/run_state.h"
#include "engine/run/swap_inventory.h"

namespace spillway {

struct KeptState {
  RunState state;      // from the first rank's commit
  bool freed = false;  // it is no commit any more; the rest remains after a call that was killed
  std::vector<SwapRun> runs;  // the directories of all ranks that are on this machine

  uint64_t bytes() const;
  // The folders that contain them: "/nvme1, /nvme2".
  std::string Places() const;
};

// The kept state of the run in `output`. kNotFound if it has no commit and was not freed.
absl::StatusOr<KeptState> FindKeptState(const std::string& output);

// Renames the commit of a finished run (FreedManifestPath), then removes the directories that it
// named, and returns the bytes freed. Safe against kills: before the first rank's manifest is
// renamed nothing has changed, and after it another call completes the removal.
// kFailedPrecondition, with nothing changed, if a process works on the run, the run is not
// finished, or OUTPUT has no exported model or adapter (unless `without_model`). Warns of
// directories that remain, such as another machine's.
absl::StatusOr<uint64_t> FreeKeptState(const std::string& output, bool without_model);

// The OUTPUT of all ranks, from that of one rank.
std::string OutputOfAllRanks(const std::string& rank_output);

}  // namespace spillway
