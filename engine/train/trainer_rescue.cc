// What a trainer does when memory that computing needs is refused in the middle of a step: the
// state after the step before is committed where it is still whole, so that the run goes on from
// there with other flags.
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/train/trainer.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {

absl::Status Trainer::Refusable(absl::Status status) {
  memory_refused_ = absl::IsResourceExhausted(status);
  return status;
}

// `refusal` with what became of the run. Nothing is trained any more.
absl::Status Trainer::EndAfterRefusal(const absl::Status& refusal) {
  // Several ranks can't commit without the one that was refused.
  if (ranks_.world != nullptr) return refusal;
  const int64_t durable = last_commit_step_;
  const absl::StatusOr<bool> committed = CommitBeforeRefusal();
  std::string outcome;
  if (!committed.ok()) {
    outcome = absl::StrCat("step ", state_.step, " could not be committed (",
                           committed.status().message(), ")");
    last_commit_step_ = durable;
  } else if (options_.no_commit) {
    outcome = "nothing is committed (--no-commit)";
  } else if (state_.step == 0) {
    outcome = "no step was done";
  } else if (*committed) {
    outcome = absl::StrCat("step ", state_.step, " is committed");
  } else {
    outcome = absl::StrCat("step ", state_.step + 1,
                           " had already changed a part of the state (--commit-every keeps more)");
  }
  if (last_commit_step_ > 0) {
    absl::StrAppend(&outcome,
                    last_commit_step_ == state_.step
                        ? ""
                        : absl::StrCat("; the last commit is that of step ", last_commit_step_),
                    ": go on from there with --resume");
  }
  return absl::Status(refusal.code(), absl::StrCat(refusal.message(), "; ", outcome));
}

// Whether a commit names the state after the last step.
absl::StatusOr<bool> Trainer::CommitBeforeRefusal() {
  ASSIGN_OR_RETURN(const bool whole, manager_->AbandonRunning());
  program_enqueued_ = false;
  RETURN_IF_ERROR(manager_->Flush());
  if (whole && !options_.no_commit && state_.step > last_commit_step_) {
    RETURN_IF_ERROR(StartCommit(/*finished=*/state_.step == options_.steps));
  }
  RETURN_IF_ERROR(manager_->AwaitCommit());
  RETURN_IF_ERROR(CountWritten());
  if (storage_->copies() != nullptr) RETURN_IF_ERROR(storage_->copies()->Wait());
  return last_commit_step_ == state_.step;
}

}  // namespace spillway
