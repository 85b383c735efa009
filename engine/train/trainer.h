// A run from its first step to its last: the loop of steps, evaluations and commits. Uses no
// tensors; StepCompute does the model's arithmetic. Its parts are RunSetup (plan, memory, swap
// manager), StepMeter (a step's times), RankTotals (agreements with other ranks), EvaluationPasses,
// CommitStarter, WriteAccount and TrainerRescue (memory that is refused).
//
// Everything here runs on the compute thread.
//
// Large because the loop and the ways in which it begins and ends are read together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/numeric/loss_scale.h"
#include "engine/report/run_journal.h"
#include "engine/report/step_recorder.h"
#include "engine/report/step_summary.h"
#include "engine/train/commit_starter.h"
#include "engine/train/rank_totals.h"
#include "engine/train/run_context.h"
#include "engine/train/run_setup.h"
#include "engine/train/step_meter.h"
#include "engine/train/step_progress.h"
#include "engine/train/train_result.h"
#include "engine/train/trainer_rescue.h"
#include "engine/train/write_account.h"
#include "engine/weights/weight_source.h"

namespace spillway {

class Trainer {
 public:
  // Checks, measures, plans and opens everything; nothing has been written to the store yet.
  // kResourceExhausted of exit code 3 if the run does not fit.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(RunContext context);

  const SwapPlan& plan() const { return setup_->plan(); }
  SwapManager* manager() { return setup_->manager(); }

  // Writes the first state from `weights`, or loads that of the last commit. Succeeds on all ranks
  // or on none: returns the error of the first failed rank, on others BecauseOf it.
  absl::Status Start(WeightSource* weights);

  // Runs to options.steps or to a signal.
  absl::StatusOr<TrainResult> Run();

  // The signal, to this rank or another, that made Start return kCancelled, or Run stop; 0: none.
  int stop_signal() const { return totals_->stop_reason().signal; }

 private:
  explicit Trainer(RunContext context);

  absl::Status BringFirstState(WeightSource* weights);
  absl::Status OpenJournal();
  bool GaveUpReading(const absl::Status& ended) const;
  absl::StatusOr<TrainResult> RunSteps();
  // One iteration of the loop: the step, its flush, evaluation, row and commit. Returns whether the
  // run stops after it, because of a signal or a limit.
  absl::StatusOr<bool> TakeStep(TrainResult& result, StepProgress& progress);
  absl::Status RunTrainStep(int64_t step, StepMetrics& row);
  void EnqueueStep(int64_t step);
  absl::Status PassOver(StepMetrics& row);
  absl::Status RunOps(int64_t count);
  // Evaluates before step 1, or for an earlier process that stopped before it could. False:
  // cancelled.
  absl::StatusOr<bool> EvaluateFirst(TrainResult& result);
  absl::Status TakeEvaluation(const EvaluationMetrics& metrics, TrainResult& result);
  absl::StatusOr<std::optional<EvaluationMetrics>> Evaluate();
  absl::StatusOr<bool> StopsNow();
  absl::Status AbandonEnqueued();
  // Waits for work that continues beside the last step.
  absl::Status Finish();
  void Conclude(TrainResult& result);
  std::string StopText() const;

  double Epochs() const;
  bool EvaluateAfter(int64_t step) const;

  const RunContext context_;
  const TrainOptions& options_;  // in context_
  RunState state_;
  LossScaler loss_scaler_;
  std::unique_ptr<StepRecorder> recorder_;
  WriteAccount writes_;
  std::unique_ptr<RunSetup> setup_;
  std::unique_ptr<StepMeter> meter_;
  std::unique_ptr<RankTotals> totals_;
  std::unique_ptr<CommitStarter> commits_;
  std::unique_ptr<TrainerRescue> rescue_;
  std::unique_ptr<RunJournal> journal_;
  StepSummary summary_;
  int64_t first_step_ = 0;         // of this process
  bool program_enqueued_ = false;  // the next step's program is enqueued
};

}  // namespace spillway
