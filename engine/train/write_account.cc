#include "engine/train/write_account.h"

#include "io/base/status.h"

namespace spillway {

absl::Status WriteAccount::Check(const SwapPlan& plan, const InPlaceUnits& in_place) {
  const TrainOptions& options = context_.options;
  plan_ = PlanWrites(plan, !context_.storage->committed(), !options.no_commit, in_place);
  plan_.commits_between =
      options.commit_every > 0 && options.commit_every < options.steps && !options.no_commit;
  if (options.resume) {
    ASSIGN_OR_RETURN(before_bytes_, WrittenBytes::Read(context_.storage->output()));
  }
  return CheckWriteLimit(options.max_bytes_written, before_bytes_, plan_);
}

absl::Status WriteAccount::Open(const SwapManager* manager) {
  manager_ = manager;
  ASSIGN_OR_RETURN(written_, WrittenBytes::Open(context_.storage->output(), before_bytes_));
  return Count(plan_.initial_bytes);
}

bool WriteAccount::IsAtLimit() const {
  return StepWouldPass(context_.options.max_bytes_written, written_->total(), plan_);
}

absl::Status WriteAccount::Count(uint64_t expected_bytes) {
  RETURN_IF_ERROR(written_->Set(manager_->stats().io.written_bytes, expected_bytes));
  if (journal_ != nullptr) journal_->SetWritten(written_->total());
  return absl::OkStatus();
}

}  // namespace spillway
