// Keeps account of what a run writes to its drives, within --max-bytes-written
// (engine/run/written_bytes.h has the count's file). Compute thread only.
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
  // `context` outlives it.
  explicit WriteAccount(const RunContext* context) : context_(*context) {}

  // What this rank has written in earlier processes, and the first one for those that the run has
  // no more.
  absl::Status ReadBefore();

  // All ranks together, before anything is written: an error that ends in exit code 3 where the
  // limit allows no step of their plans, where nothing of `in_place` is written.
  absl::Status Check(const SwapPlan& plan, const InPlaceUnits& in_place);

  // Opens OUTPUT/bytes-written before the first state is written by `manager`, which outlives this.
  absl::Status Open(const SwapManager* manager);
  // From here on the journal is told, too; it outlives this.
  void ShowIn(RunJournal* journal) { journal_ = journal; }

  // The file says what was written so far, and what may come until the next call: a step and what
  // follows the last one, the latter alone, or nothing.
  absl::Status BeforeStep() { return Count(plan_.step_bytes + plan_.end_bytes); }
  absl::Status AfterStep() { return Count(plan_.end_bytes); }
  absl::Status AtRest() { return Count(0); }

  // Whether a further step of all ranks would pass the limit, where there is one.
  absl::StatusOr<bool> IsAtLimit();
  // As of that call: whether a commit by time and a further step fit. Where they do not, the run
  // soon stops at the limit, and commits then.
  bool CommitFits() const { return commit_fits_; }
  // By this rank, in all processes of the run.
  uint64_t total_bytes() const { return written_->total(); }

 private:
  absl::Status Count(uint64_t expected_bytes);
  // The ranks' numbers together.
  absl::StatusOr<uint64_t> OfAll(uint64_t own) const;

  const RunContext& context_;
  WritePlan plan_;
  WritePlan plan_of_all_;      // ranks
  uint64_t before_bytes_ = 0;  // by earlier processes
  bool commit_fits_ = true;
  std::unique_ptr<WrittenBytes> written_;
  const SwapManager* manager_ = nullptr;
  RunJournal* journal_ = nullptr;
};

}  // namespace spillway
