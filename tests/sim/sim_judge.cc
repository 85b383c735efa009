// What must hold when a life of the simulated program has ended, and of its last commit.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "swap/mover/whole_store.h"
#include "tests/sim/sim_run_internal.h"

namespace spillway {

void SimRun::JudgeEnd(const absl::Status& status) {
  if (disk_.crashed() || !failure_.empty()) return;
  const SimFaults& faults = disk_.faults();
  const bool refused = faults.refusals() > refusals_before_;
  // What was damaged in an earlier life may be read now.
  const bool lied = faults.damaged() || faults.lies() > lies_before_;
  if (status.ok() || absl::IsCancelled(status)) return;
  if (!refused && !lied) {
    Fail(absl::StrCat("an error without a fault: ", status.ToString()));
  }
  if (!absl::StrContains(status.message(), "/sim/")) {
    Fail(absl::StrCat("the error names no file: ", status.ToString()));
  }
  const bool sync_failed = faults.counts()[static_cast<int>(SimFault::kSyncError)] > 0;
  if (absl::IsDataLoss(status)) {
    if (!lied && !sync_failed) Fail(absl::StrCat("wrong bytes: ", status.ToString()));
    ++tally_.lies_reported;
    ++lives_with_lies_;
    if (const auto lie = faults.only_lie()) ++tally_.lies_detected[static_cast<int>(*lie)];
  } else if (refused) {
    ++tally_.refusals_reported;
  } else if (faults.counts()[static_cast<int>(SimFault::kSmallFileFlipped)] == 0 &&
             !absl::IsInvalidArgument(status)) {
    Fail(absl::StrCat("wrong bytes, reported as something else: ", status.ToString()));
  }
}

// Nothing open, and no files but the store's.
void SimRun::JudgeFiles() {
  if (disk_.open_handles != 0) Fail(absl::StrCat(disk_.open_handles, " files are still open"));
  if (disk_.crashed()) return;
  for (const std::string& name : disk_.Names()) {
    if (name != manifest_path_ && !absl::EndsWith(name, "/tiles") &&
        name != absl::StrCat(kSimCopyDirectory, "/manifest")) {
      Fail(absl::StrCat(name, " was left behind"));
    }
  }
}

// The last commit opens, and every byte of it is the oracle's: between lives, and for any
// reader beside a life that goes on. The same of its copy.
void SimRun::JudgeCommit() {
  if (acknowledged_) {
    JudgeCommitAt(manifest_path_, *acknowledged_, under_way_ ? &*under_way_ : nullptr);
  }
  if (copied_) JudgeCommitAt(absl::StrCat(kSimCopyDirectory, "/manifest"), *copied_, nullptr);
}

void SimRun::JudgeCommitAt(const std::string& manifest_path, const SimCommit& last,
                           const SimCommit* under_way) {
  if (!failure_.empty() || disk_.crashed()) return;
  const uint64_t refusals_before = disk_.faults().refusals();
  const uint64_t lies_before = disk_.faults().lies();
  CommitRecord record;
  auto store = SwapStore::Open(manifest_path, /*read_only=*/true, {}, &record, files_);
  absl::Status status = store.status();
  if (status.ok()) {
    const SimCommit* const found = record.step == last.step ? &last
                                   : under_way != nullptr && record.step == under_way->step
                                       ? under_way
                                       : nullptr;
    if (found == nullptr) {
      return Fail(absl::StrCat("the commit of step ", record.step, " is in ", manifest_path,
                               " instead of that of ", last.step));
    }
    // A copy: while it is read, the one under way may become the last.
    const SimOracle expected = found->state;
    status = ReadStore(**store, 0, shape_.num_planes(), [&](const TileView& tile) {
      if (!SimSameTile(tile, expected)) {
        Fail(absl::StrCat("unit ", tile.unit, " tile ", tile.tile, " of the commit of step ",
                          record.step, " is not the oracle's"));
      }
      return absl::OkStatus();
    });
  }
  if (status.ok() || disk_.crashed() || disk_.faults().refusals() > refusals_before) return;
  const bool wrong_bytes = absl::IsDataLoss(status) || absl::IsInvalidArgument(status);
  const bool lied = disk_.faults().damaged() || disk_.faults().lies() > lies_before;
  if (lied && wrong_bytes) return;
  Fail(absl::StrCat("the commit of step ", last.step, " does not open: ", status.ToString()));
}

}  // namespace spillway
