#include "engine/train/trainer_rescue.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/run/run_commit.h"
#include "io/base/status.h"

namespace spillway {

absl::Status TrainerRescue::NoteOutOfMemory(absl::Status status) {
  needed_ = absl::IsResourceExhausted(status);
  return status;
}

absl::Status TrainerRescue::NoteNotBegun(absl::Status status) {
  needed_ = !status.ok();
  return status;
}

absl::Status TrainerRescue::End(const absl::Status& refusal) {
  // Several ranks cannot commit without the one that was refused.
  if (context_.ranks.world != nullptr) return refusal;
  int64_t last_step = commits_.last_step();
  const absl::StatusOr<bool> committed = Commit();
  std::string outcome;
  if (!committed.ok()) {
    outcome = absl::StrCat("step ", state_.step, " could not be committed (",
                           committed.status().message(), ")");
  } else if (context_.options.no_commit) {
    outcome = "nothing is committed (--no-commit)";
  } else if (state_.step == 0) {
    outcome = "no step was done";
  } else if (*committed) {
    outcome = absl::StrCat("step ", state_.step, " is committed");
  } else {
    outcome = absl::StrCat("step ", state_.step + 1,
                           " had already changed a part of the state (--commit-every keeps more)");
  }
  if (committed.ok()) last_step = commits_.last_step();
  if (last_step > 0) {
    absl::StrAppend(&outcome,
                    last_step == state_.step
                        ? ""
                        : absl::StrCat("; the last commit is that of step ", last_step),
                    ": go on from there with --resume");
  } else if (!context_.options.no_commit) {
    absl::StrAppend(&outcome, "; no commit was made, so --resume starts at step 1");
  }
  return absl::Status(refusal.code(), absl::StrCat(refusal.message(), "; ", outcome));
}

absl::StatusOr<bool> TrainerRescue::Commit() {
  SwapManager& manager = *setup_.manager();
  ASSIGN_OR_RETURN(const bool whole, manager.AbandonRunning());
  RETURN_IF_ERROR(manager.Flush());
  RETURN_IF_ERROR(manager.AwaitNoCommit());  // last_step is then that of a durable commit
  if (whole && !context_.options.no_commit && state_.step > commits_.last_step()) {
    RETURN_IF_ERROR(commits_.Start());
  }
  RETURN_IF_ERROR(manager.AwaitCommit());
  RETURN_IF_ERROR(writes_.AtRest());
  RETURN_IF_ERROR(AwaitCopies(*context_.storage, context_.ranks.world));
  return commits_.last_step() == state_.step;
}

}  // namespace spillway
