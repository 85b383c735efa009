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
  // All outlive the object. `state`: written with the next commit.
  CommitStarter(const RunContext* context, const RunSetup* setup, StepMeter* meter,
                StepRecorder* recorder, RunState* state);

  // Makes the rows of `journal` durable before the commit that covers them.
  void CoverRowsOf(RunJournal* journal) { journal_ = journal; }

  // Steps begin: the time to the first commit by time counts from here.
  void BeginSteps();
  // Whether a commit is due by time, by this rank's clock.
  bool IsDueByTime() const;
  // A commit is due, by the first rank's clock.
  void MakeDue() { due_ = true; }
  // Adds time that a step has waited for the previous commit.
  void CountWait(double seconds) { schedule_.CountWait(seconds); }

  // Begins a commit if one is due after the step that has just ended: by --commit-every, or as the
  // run ends with it (its last one, or `stop`). If the copy of the previous commit (--persist)
  // takes longer than RunContext::copy_patience_seconds, the commit is deferred to a later step,
  // except at the end of the run.
  absl::Status AfterStep(bool stop);

  // Begins a commit of the state after the last step, which continues beside the next one. Waits
  // for the previous commit and its copy.
  absl::Status Start();
  // Begins a commit of a step that has one already, whose copy is replaced. REQUIRES: no copy is
  // under way.
  absl::Status StartAgain();

  // The step of the last durable commit, of this process or an earlier one; 0: none. A commit under
  // way does not count.
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
  bool put_off_ = false;  // a copy defers the due commit
  // Set on the swap manager's thread, which may end after this object.
  const std::shared_ptr<std::atomic<int64_t>> last_step_;
};

}  // namespace spillway
