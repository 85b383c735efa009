// Finds the commit that a run goes on from: that in OUTPUT, a copy of one (--persist), or, of a
// rank that has no part of it, that of all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/run/commit_copies.h"
#include "engine/run/run_state.h"
#include "io/file_system.h"
#include "swap/store/in_place.h"

namespace spillway {

// What the first of several ranks found: the others' commit is its.
struct FirstRankCommit {
  std::string output;  // OUTPUT of all ranks
  std::optional<RunState> committed;
};

struct FoundCommit {
  std::optional<RunState> state;  // none: there is none, or none is good
  std::string directory;          // of its manifest
  uint64_t tile_parameters = 0;   // 0 without one
  InPlaceUnits in_place;          // what it has in the model's files
  // Of the commit in OUTPUT, whichever is gone on from: where its store is.
  std::vector<std::string> output_store;
  int output_store_number = -1;
};

// The newest good commit in `output` or among `copies` (null: none are looked at); of the same step
// that of OUTPUT, which can be continued where it is. With `check`, copies are read through first.
// A commit that is found stays found: its directory is synced. Fills in what was found even where
// it returns an error: why the newest commit is not good, where no other is. `model_directory`: as
// of SwapStore::Open.
absl::Status FindCommit(const std::string& output, const CommitCopies* copies, bool check,
                        absl::string_view model_directory, FileSystem& files, FoundCommit& found);

// Makes what a later rank has found in `output` agree with the first one's commit: where it has no
// part of that, it goes on from that of all ranks. kFailedPrecondition where it has a commit and
// the first rank has none.
absl::Status TakeFirstRanksCommit(const FirstRankCommit& first, const std::string& first_output,
                                  const std::string& output, FoundCommit& found);

}  // namespace spillway
