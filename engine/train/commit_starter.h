// Starts commits of a run's state. Compute thread only.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/report/run_journal.h"
#include "engine/report/step_recorder.h"
#include "engine/run/run_state.h"
#include "engine/train/commit_schedule.h"
#include "engine/train/run_context.h"
#include "engine/train/run_setup.h"
#include "engine/train/step_meter.h"

namespace spillway {

class CommitStarter {
 public:
  // All outlive it. `state`: what the next commit names.
  CommitStarter(const RunContext* context, const RunSetup* setup, StepMeter* meter,
                StepRecorder* recorder, RunState* state);

  // The rows of `journal` are made durable before the commit that covers them.
  void CoverRowsOf(RunJournal* journal) { journal_ = journal; }

  // Steps begin: the time to the first commit by time counts from here.
  void BeginSteps();
  // Whether a commit is due by time, by this rank's clock.
  bool IsDueByTime() const;
  // One is, by the clock that goes for all ranks.
  void MakeDue() { due_ = true; }
  // A step has waited so long for the commit before it.
  void CountWait(double seconds) { schedule_.CountWait(seconds); }

  // Begins a commit where one is due after the step that has just ended: by --commit-every, or as
  // the run ends with it (its last one, or `stop`). A copy of the commit before (--persist) that
  // takes longer than RunContext::copy_patience_seconds puts it off until after a later step,
  // except where the run ends.
  absl::Status AfterStep(bool stop);

  // Begins one of the state after the step that has just ended; it goes on beside the next. Waits
  // for the commit before, and until that is copied.
  absl::Status Start();
  // The same where there is a commit of that step already, whose copy gives way. REQUIRES: no copy
  // is under way.
  absl::Status StartAgain();

  // The step of the last commit that is durable, of this process or an earlier one; 0: none. While
  // one is under way it is that of the one before.
  int64_t last_step() const { return *last_step_; }

 private:
  absl::StatusOr<bool> FormerIsCopied();

  const RunContext& context_;
  const RunSetup& setup_;
  StepMeter& meter_;
  StepRecorder& recorder_;
  RunState& state_;
  CommitSchedule schedule_;
  RunJournal* journal_ = nullptr;
  bool due_ = false;
  bool put_off_ = false;  // the commit that is due, by a copy
  // Set on the swap manager's thread, which may end after this object.
  const std::shared_ptr<std::atomic<int64_t>> last_step_;
};

}  // namespace spillway
