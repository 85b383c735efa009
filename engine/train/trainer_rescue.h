// What a trainer does when memory that computing needs is refused in the middle of a step: the
// state after the step before is committed where it is still whole, so that the run goes on from
// there with other flags. Compute thread only.
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

  // Returns `status`, what computing has answered, and notes whether memory was refused.
  absl::Status NoteOutOfMemory(absl::Status status);
  // To what was computed last.
  bool out_of_memory() const { return out_of_memory_; }

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
  bool out_of_memory_ = false;
};

}  // namespace spillway
