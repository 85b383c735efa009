// Finds the commit that a run continues from: in OUTPUT, in a copy (--persist), or, for a rank that
// has no part of it, among the parts of all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/ranks/collectives.h"
#include "engine/run/commit_copies.h"
#include "engine/run/committed_run.h"
#include "engine/run/run_state.h"
#include "io/file_system.h"
#include "swap/store/in_place.h"

namespace spillway {

// The commit found by the first of several ranks, which the others follow.
struct FirstRankCommit {
  std::string output;  // OUTPUT of all ranks
  std::optional<RunState> committed;
  std::string directory;  // of that commit: OUTPUT of all ranks, or a copy
};

struct FoundCommit {
  std::optional<RunState> state;  // none: there is no good commit
  std::string directory;          // of its manifest
  uint64_t tile_parameters = 0;   // 0 without a commit
  InPlaceUnits in_place;          // what it reads in the model's files
  // The commit in OUTPUT, whether the run continues from it or not: its store and its manifest.
  std::vector<std::string> output_store;
  int output_store_number = -1;
  std::string output_manifest;  // "": none
  int output_rank = 0;          // rank of that part
};

// Reads a commit's tiles and verifies their checksums. kDataLoss, kNotFound or kInvalidArgument if
// it is damaged; after other errors this is unknown.
using CheckCommit = std::function<absl::Status(const CommittedRun&)>;

// Verifies the parts of `run` that are assigned to rank `rank` of `ranks`: its own part, if the
// commit has as many ranks.
absl::Status ReadThroughParts(const CommittedRun& run, int rank, int ranks, FileSystem& files,
                              absl::string_view model_directory);

// Verifies by all ranks, each its parts: the first one, which has found the commits, calls Check,
// and then End; the others answer in Serve until then.
class CheckTogether {
 public:
  CheckTogether(Collectives* world, FileSystem* files, std::string model_directory)
      : world_(*world), files_(*files), model_directory_(std::move(model_directory)) {}

  absl::Status Check(const CommittedRun& run);
  absl::Status End();
  absl::Status Serve();

 private:
  // OK if the parts of all ranks are good.
  absl::Status Agree(const absl::Status& own);

  Collectives& world_;
  FileSystem& files_;
  const std::string model_directory_;
};

// Finds the newest good commit in `output` or among `copies` (null: none); of the same step the one
// in OUTPUT, which can be continued in place. With copies they are verified first, by `check`
// (null: not at all). Syncs the directory of the result, so that it stays. Sets `found` even on an
// error, which says why the newest commit is not good if there is no other. `model_directory`: as
// for SwapStore::Open.
absl::Status FindCommit(const std::string& output, const CommitCopies* copies,
                        const CheckCommit& check, absl::string_view model_directory,
                        FileSystem& files, FoundCommit& found);

// Makes the commit that a later rank, number `rank`, found in `output` agree with the first rank's:
// takes its own part of a copy, and without a part continues from the parts of all ranks.
// kFailedPrecondition if it has a commit and the first rank has none.
absl::Status TakeFirstRanksCommit(const FirstRankCommit& first, const std::string& first_output,
                                  int rank, const std::string& output,
                                  absl::string_view model_directory, FileSystem& files,
                                  FoundCommit& found);

}  // namespace spillway
