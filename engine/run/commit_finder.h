// Finds the commit that a run goes on from: that in OUTPUT, a copy of one (--persist), or, of a
// rank that has no part of it, that of all ranks.
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

// What the first of several ranks found: the others' commit is its.
struct FirstRankCommit {
  std::string output;  // OUTPUT of all ranks
  std::optional<RunState> committed;
  std::string directory;  // of that: OUTPUT of all ranks, or a copy
};

struct FoundCommit {
  std::optional<RunState> state;  // none: there is none, or none is good
  std::string directory;          // of its manifest
  uint64_t tile_parameters = 0;   // 0 without one
  InPlaceUnits in_place;          // what it has in the model's files
  // Of the commit in OUTPUT, whichever is gone on from: where its store is, and its manifest.
  std::vector<std::string> output_store;
  int output_store_number = -1;
  std::string output_manifest;  // "": there is none
  int output_rank = 0;          // whose part it is
};

// Whether a commit's tiles are what they were: reads them through. kDataLoss, kNotFound or
// kInvalidArgument where it is none any more; by other errors that can't be told.
using CheckCommit = std::function<absl::Status(const CommittedRun&)>;

// Reads through the parts of `run` that are rank `rank`'s to check, as one of `ranks`: of a commit
// of as many ranks its own.
absl::Status ReadThroughParts(const CommittedRun& run, int rank, int ranks, FileSystem& files,
                              absl::string_view model_directory);

// The same by all ranks, each its parts: the first one, which has found the commits, asks the
// others with Check, and ends with End; they answer in Serve until then.
class CheckTogether {
 public:
  CheckTogether(Collectives* world, FileSystem* files, std::string model_directory)
      : world_(*world), files_(*files), model_directory_(std::move(model_directory)) {}

  absl::Status Check(const CommittedRun& run);
  absl::Status End();
  absl::Status Serve();

 private:
  // OK where the parts of all ranks are good.
  absl::Status Agree(const absl::Status& own);

  Collectives& world_;
  FileSystem& files_;
  const std::string model_directory_;
};

// The newest good commit in `output` or among `copies` (null: none are looked at); of the same step
// that of OUTPUT, which can be continued where it is. With copies they are checked first, by
// `check` (null: not at all). A commit that is found stays found: its directory is synced. Fills in
// what was found even where it returns an error: why the newest commit is not good, where no other
// is. `model_directory`: as of SwapStore::Open.
absl::Status FindCommit(const std::string& output, const CommitCopies* copies,
                        const CheckCommit& check, absl::string_view model_directory,
                        FileSystem& files, FoundCommit& found);

// Makes what a later rank, number `rank`, has found in `output` agree with the first one's commit:
// takes its own part of a copy, and where it has no part it goes on from that of all ranks.
// kFailedPrecondition where it has a commit and the first rank has none.
absl::Status TakeFirstRanksCommit(const FirstRankCommit& first, const std::string& first_output,
                                  int rank, const std::string& output,
                                  absl::string_view model_directory, FileSystem& files,
                                  FoundCommit& found);

}  // namespace spillway
