// What a trainer does when a step cannot be computed, since memory that it needs is refused or its
// samples cannot be read: the state after the step before is committed where it is still whole, so
// that the run goes on from there once that is mended. Compute thread only.
#pragma once

#include "absl/status/statusor.h"
#include "engine/run/run_state.h"
#include "engine/train/commit_starter.h"
#include "engine/train/run_context.h"
#include "engine/train/run_setup.h"
#include "engine/train/write_account.h"

namespace spillway {

class TrainerRescue {
 public:
  // All outlive it. `state`: after the last step that ended.
  TrainerRescue(const RunContext* context, const RunSetup* setup, CommitStarter* commits,
                WriteAccount* writes, const RunState* state)
      : context_(*context), setup_(*setup), commits_(*commits), writes_(*writes), state_(*state) {}

  // Return `status`, what computing has answered: whether memory was refused in the middle of
  // something, or whatever was wrong before anything of it had begun.
  absl::Status NoteOutOfMemory(absl::Status status);
  absl::Status NoteNotBegun(absl::Status status);
  // What was noted last is such a failure.
  bool needed() const { return needed_; }

  // Commits what can be committed; nothing is trained any more. Returns `refusal` with what became
  // of the run.
  absl::Status End(const absl::Status& refusal);

 private:
  // Whether a commit names the state after the last step.
  absl::StatusOr<bool> Commit();

  const RunContext& context_;
  const RunSetup& setup_;
  CommitStarter& commits_;
  WriteAccount& writes_;
  const RunState& state_;
  bool needed_ = false;
};

}  // namespace spillway
