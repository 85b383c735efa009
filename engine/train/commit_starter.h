// Starts commits of a run's state. Compute thread only.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "engine/report/run_journal.h"
#include "engine/report/step_recorder.h"
#include "engine/run/run_state.h"
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

  // Begins a commit of the state after the step that has just ended; it goes on beside the next.
  // Waits for the commit before, and until that is copied (--persist).
  absl::Status Start(bool finished);

  // The step of the last commit that is durable, of this process or an earlier one; 0: none. While
  // one is under way it is that of the one before.
  int64_t last_step() const { return last_step_; }

 private:
  const RunContext& context_;
  const RunSetup& setup_;
  StepMeter& meter_;
  StepRecorder& recorder_;
  RunState& state_;
  RunJournal* journal_ = nullptr;
  std::atomic<int64_t> last_step_{0};  // set on the swap manager's thread
};

}  // namespace spillway
