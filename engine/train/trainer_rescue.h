// Handles a step that cannot be computed because memory is refused or its samples cannot be read:
// commits the state after the previous step if it is still complete, so that the run can continue
// from there after a remedy. Compute thread only.
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
  // All outlive the object. `state`: after the last completed step.
  TrainerRescue(const RunContext* context, const RunSetup* setup, CommitStarter* commits,
                WriteAccount* writes, const RunState* state)
      : context_(*context), setup_(*setup), commits_(*commits), writes_(*writes), state_(*state) {}

  // Return `status`, a result of the computation, and note whether memory was refused midway, or
  // anything failed before the step began.
  absl::Status NoteOutOfMemory(absl::Status status);
  absl::Status NoteNotBegun(absl::Status status);
  // Whether the last status noted was such a failure.
  bool needed() const { return needed_; }

  // Commits what can be committed, and ends training. Returns `refusal` extended by the result.
  absl::Status End(const absl::Status& refusal);

 private:
  // Returns whether a commit names the state after the last step.
  absl::StatusOr<bool> Commit();

  const RunContext& context_;
  const RunSetup& setup_;
  CommitStarter& commits_;
  WriteAccount& writes_;
  const RunState& state_;
  bool needed_ = false;
};

}  // namespace spillway
