// Counts the bytes that a run writes to its drives, within --max-bytes-written
// (engine/run/written_bytes.h has the file). Compute thread only.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/report/run_journal.h"
#include "engine/run/written_bytes.h"
#include "engine/train/run_context.h"
#include "swap/mover/swap_manager.h"

namespace spillway {

class WriteAccount {
 public:
  // `context` outlives the object.
  explicit WriteAccount(const RunContext* context) : context_(*context) {}

  // Reads the bytes that this rank has written in earlier processes; the first rank also counts for
  // ranks that no longer exist.
  absl::Status ReadBefore();

  // Called by all ranks before anything is written: an error of exit code 3 if the limit allows no
  // step of their plans. Units of `in_place` are not written.
  absl::Status Check(const SwapPlan& plan, const InPlaceUnits& in_place);

  // Opens OUTPUT/bytes-written before `manager`, which outlives this object, writes the first
  // state.
  absl::Status Open(const SwapManager* manager);
  // Reports the count to the journal, too, from now on; it outlives this object.
  void ShowIn(RunJournal* journal) { journal_ = journal; }

  // Write to the file the bytes so far, and those that may follow until the next call: a step and
  // the bytes after the last one, only the latter, or nothing.
  absl::Status BeforeStep() { return Count(plan_.step_bytes + plan_.end_bytes); }
  absl::Status AfterStep() { return Count(plan_.end_bytes); }
  absl::Status AtRest() { return Count(0); }

  // Whether another step of all ranks would pass the limit, if there is one.
  absl::StatusOr<bool> IsAtLimit();
  // From the last IsAtLimit: whether a commit by time and another step fit. If not, the run soon
  // stops at the limit, and commits then.
  bool CommitFits() const { return commit_fits_; }
  // Bytes written by this rank in all processes of the run.
  uint64_t total_bytes() const { return written_->total(); }

 private:
  absl::Status Count(uint64_t expected_bytes);
  // Sum over the ranks.
  absl::StatusOr<uint64_t> OfAll(uint64_t own) const;

  const RunContext& context_;
  WritePlan plan_;
  WritePlan plan_of_all_;      // over all ranks
  uint64_t before_bytes_ = 0;  // by earlier processes
  bool commit_fits_ = true;
  std::unique_ptr<WrittenBytes> written_;
  const SwapManager* manager_ = nullptr;
  RunJournal* journal_ = nullptr;
};

}  // namespace spillway
