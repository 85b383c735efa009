#include "engine/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/progress.h"
#include "engine/base/stop_signal.h"
#include "engine/machine/memory_limits.h"
#include "engine/ranks/shard_plan.h"
#include "engine/run/rank_commit.h"
#include "engine/train/trainer_watch.h"
#include "engine/weights/master_weights.h"
#include "io/base/check.h"
#include "io/base/clock.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

double ClipCoefficient(double clip, double norm) {
  return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

// What was good when the run began and is not any more is no bad input (exit code 2), but a
// failure: another user's file where ours was, a file that is gone.
absl::Status FailedWhileRunning(const absl::Status& status) {
  return ExitCodeOf(status) == 2 ? absl::Status(absl::StatusCode::kAborted, status.message())
                                 : status;
}

// Not a number (null in JSON) where no token carried loss: the windows lay within prompts.
double MeanLoss(double sum, int64_t labels) {
  return labels > 0 ? sum / static_cast<double>(labels) : std::nan("");
}

}  // namespace

double Trainer::LearningRateNow() const {
  // Skipped steps advance neither the schedule nor the bias corrections.
  return LearningRate(options_.schedule, options_.optimizer.learning_rate, state_.applied_steps + 1,
                      options_.steps);
}

bool Trainer::EvaluateAfter(int64_t step) const {
  if (compute_->evaluation_samples() == 0) return false;
  return step == options_.steps || (options_.eval_every > 0 && step % options_.eval_every == 0);
}

bool Trainer::CommitAfter(int64_t step) const {
  if (options_.no_commit) return false;
  return step == options_.steps || (options_.commit_every > 0 && step % options_.commit_every == 0);
}

absl::Status Trainer::RunOps(int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const OpBuffers buffers, memory_->BeginOp());
    const double began = MonotonicSeconds();
    {
      // Of a separate device, which is told now and computes later, the mover knows.
      Trace* const trace = device_ == nullptr ? recorder_->trace() : nullptr;
      const TraceSpan span(trace, SpanKindOf(buffers.op->kind), buffers.op->unit);
      RETURN_IF_ERROR(Refusable(compute_->Run(buffers)));
    }
    compute_seconds_ += MonotonicSeconds() - began;
    memory_->EndOp();
    recorder_->Drain();
  }
  return absl::OkStatus();
}

absl::Status Trainer::RunTrainStep(int64_t step, StepMetrics& row) {
  const bool half = options_.dtype == DType::kFloat16;
  const double loss_scale = half ? loss_scaler_.scale() : 1;
  row.step = step;
  row.deferred = deferred_;
  row.learning_rate = LearningRateNow();
  if (half) row.loss_scale = loss_scale;

  RETURN_IF_ERROR(Refusable(compute_->BeginTrain(step, loss_scale)));
  RETURN_IF_ERROR(ShareLabels());
  if (!std::exchange(program_enqueued_, false)) memory_->Enqueue(Program::kTrain);
  UpdateScalars scalars;
  scalars.step = state_.applied_steps + 1;
  scalars.learning_rate = row.learning_rate;
  if (!deferred_) {
    memory_->AnnounceUpdate(scalars);
    // The next step's first fetches, and updates that pass by, overlap this step's end.
    if (step < options_.steps && !EvaluateAfter(step)) {
      memory_->Enqueue(Program::kTrain);
      program_enqueued_ = true;
    }
  }
  const int64_t forward_ops = evaluate_ops_ - 1;
  RETURN_IF_ERROR(RunOps(forward_ops));
  busy_after_forward_ = BusyNow(manager_->stats());
  phase_ends_ns_[static_cast<int>(Phase::kForward)] = Trace::Now();
  RETURN_IF_ERROR(RunOps(memory_->schedule().ops.size() - forward_ops));
  busy_after_backward_ = BusyNow(manager_->stats());
  phase_ends_ns_[static_cast<int>(Phase::kBackward)] = Trace::Now();
  row.tokens = compute_->label_count();
  ASSIGN_OR_RETURN(const double loss_sum, LossOfAllRanks());
  row.loss = MeanLoss(loss_sum, row.tokens);

  if (deferred_) {
    WaitOutsideOps wait(*this);
    ASSIGN_OR_RETURN(const GradientTotal total, memory_->AwaitGradients());
    wait.End();
    const double norm = std::sqrt(total.sum_of_squares) / loss_scale;
    row.grad_norm = norm;
    scalars.skip = half && !total.finite;
    if (!total.finite && !half) {
      return absl::OutOfRangeError(absl::StrCat(
          "step ", step, ": a gradient is not finite (the norm is ", norm,
          "); lower --lr, raise --warmup or use --dtype fp32; the last commit is good"));
    }
    scalars.gradient_scale = ClipCoefficient(options_.clip, norm) / loss_scale;
    row.skipped = scalars.skip;
    memory_->AnnounceUpdate(scalars);
  }
  if (half)
    RETURN_IF_ERROR(Annotate(loss_scaler_.Update(row.skipped), absl::StrCat("step ", step)));
  if (!row.skipped) ++state_.applied_steps;
  state_.step = step;
  state_.loss_scale = loss_scaler_.state();
  return absl::OkStatus();
}

absl::StatusOr<double> Trainer::Evaluate() {
  const TraceSpan span(recorder_->trace(), SpanKind::kEvaluation);
  const double began = MonotonicSeconds();
  const SwapStats stats_before = manager_->stats();
  const ShardedStats exchanged_before = ExchangedNow();
  const double agreed_before = agreed_seconds_;
  const int64_t samples = compute_->evaluation_samples();
  int64_t at_once = compute_->evaluation_samples_at_once(plan().device_activation_bytes);
  if (ranks_.world != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> all, AllGatherCount(*ranks_.world, at_once));
    at_once = *std::min_element(all.begin(), all.end());
  }
  // Every rank takes as many passes as the one with the most samples.
  const int64_t most = EvaluationShareOf(samples, 0, grid_.size).end;
  const EvaluationShare share = EvaluationShareOf(samples, grid_.rank, grid_.size);
  std::optional<Progress> progress;  // of evaluations that take a while
  for (int64_t taken = 0; taken < most; taken += at_once) {
    const int64_t first = std::min(share.end, share.begin + taken);
    RETURN_IF_ERROR(
        Refusable(compute_->BeginEvaluate(first, std::min(at_once, share.end - first))));
    memory_->Enqueue(Program::kEvaluate);
    const double computed = compute_seconds_;
    RETURN_IF_ERROR(RunOps(evaluate_ops_));
    compute_seconds_ = computed;
    const int64_t done = std::min(samples, (taken + at_once) * grid_.size);
    if (!progress && done < samples && MonotonicSeconds() - began > 5) {
      progress.emplace("evaluating", samples, taken * grid_.size);
    }
    if (progress) progress->Update(done);
  }
  progress.reset();
  EvaluationMetrics row;
  row.step = state_.step;
  RETURN_IF_ERROR(ShareLabels());
  ASSIGN_OR_RETURN(const double loss_sum, LossOfAllRanks());
  row.tokens = compute_->label_count();
  row.loss = MeanLoss(loss_sum, row.tokens);
  row.seconds = MonotonicSeconds() - began;
  RETURN_IF_ERROR(journal_->Evaluation(row));
  // The step's row is without it.
  excluded_seconds_ += MonotonicSeconds() - began;
  LeaveOut(stats_before, manager_->stats(), last_stats_);
  LeaveOut(exchanged_before, ExchangedNow(), last_exchanged_);
  agreed_seconds_ = agreed_before;
  return row.loss;
}

absl::Status Trainer::StartCommit(bool finished) {
  const double began = MonotonicSeconds();
  RETURN_IF_ERROR(memory_->AwaitProgram());
  RETURN_IF_ERROR(storage_->CheckStillThere());
  state_.finished = finished;
  RETURN_IF_ERROR(journal_->Sync());
  std::string manifest = storage_->manifest_path();
  std::function<absl::Status()> publish;
  if (ranks_.world != nullptr) {
    ASSIGN_OR_RETURN(state_.part.commit_id, NewCommitId(*ranks_.world, state_.step));
    manifest = PreparedManifestPath(storage_->output());
    publish = [this] { return PublishCommit(storage_->output(), *ranks_.commits); };
  }
  CommitCopies* const copies = storage_->copies();
  {
    const TraceSpan span(recorder_->trace(), SpanKind::kWaitCommit);
    RETURN_IF_ERROR(manager_->AwaitNoCommit());
    // The commit being copied must stay until it is, and this one would replace it.
    const absl::Status status = copies != nullptr ? copies->Wait() : absl::OkStatus();
    if (!status.ok()) LogWarning(status.message());
  }
  const auto span = std::make_shared<std::optional<TraceSpan>>();
  span->emplace(recorder_->trace(), SpanKind::kCommit);
  RETURN_IF_ERROR(manager_->StartCommit(
      manifest, {static_cast<uint64_t>(state_.step), EncodeRunState(state_)},
      [copies, manifest, span] {
        span->reset();
        if (copies != nullptr) copies->Start(manifest);
      },
      std::move(publish)));
  journal_->Commit(state_.step);
  last_commit_step_ = state_.step;
  last_commit_seconds_ += MonotonicSeconds() - began;
  excluded_seconds_ += MonotonicSeconds() - began;
  return absl::OkStatus();
}

absl::StatusOr<TrainResult> Trainer::Run() {
  absl::StatusOr<TrainResult> result = RunSteps();
  recorder_->Finish();
  if (!result.ok()) result = FailedWhileRunning(result.status());
  if (!result.ok()) {
    journal_->End("failed", std::string(result.status().message()));
  } else if (result->end == TrainResult::End::kStopped) {
    const int signal = result->stop_signal;
    journal_->End("stopped", signal != 0 ? StopSignal::Name(signal) : "--max-bytes-written");
  } else {
    journal_->End("finished");
  }
  return result;
}

absl::StatusOr<TrainResult> Trainer::RunSteps() {
  TrainResult result;
  const double began = MonotonicSeconds();
  const SwapStats at_start = manager_->stats();
  recorder_->Begin(state_.step + 1);
  if (compute_->evaluation_samples() > 0 && state_.step == 0) {
    const absl::StatusOr<double> loss = Evaluate();
    if (memory_refused_) return EndAfterRefusal(loss.status());
    RETURN_IF_ERROR(loss.status());
    result.first_evaluation_loss = *loss;
    LogInfo(absl::StrFormat("held-out loss before training %.4f", *result.first_evaluation_loss));
  }
  Progress progress("step", options_.steps, state_.step);
  StepSummary summary;
  StartClock(MonotonicSeconds(), manager_->stats(), ExchangedNow());
  recorder_->BeginSteps();
  // Looked at once a step: a signal that comes later than that waits for the next.
  ASSIGN_OR_RETURN(bool stop, AnyRankStops(StopSignal::received() != 0));
  const int64_t first_step = state_.step + 1;
  while (state_.step < options_.steps && !stop) {
    const int64_t step = state_.step + 1;
    RETURN_IF_ERROR(storage_->CheckStillThere());
    StepMetrics row;
    RETURN_IF_ERROR(CountWritten(write_plan_.step_bytes + write_plan_.end_bytes));
    const absl::Status trained = RunTrainStep(step, row);
    if (memory_refused_) return EndAfterRefusal(trained);
    RETURN_IF_ERROR(trained);
    RETURN_IF_ERROR(CountWritten(write_plan_.end_bytes));
    ASSIGN_OR_RETURN(stop, AnyRankStops(StopSignal::received() != 0 ||
                                        StepWouldPass(options_.max_bytes_written, written_->total(),
                                                      write_plan_)));
    if (stop && std::exchange(program_enqueued_, false)) {
      RETURN_IF_ERROR(memory_->AwaitProgram());
      memory_->AbandonQueued();
    }
    const bool evaluate = EvaluateAfter(step);
    const bool commit = CommitAfter(step) || (stop && !options_.no_commit);
    // The last row has the update that no next step runs.
    const bool flush = evaluate || stop || step == options_.steps;
    if (flush) {
      WaitOutsideOps wait(*this);
      RETURN_IF_ERROR(memory_->Flush());
      wait.End();
    }
    phase_ends_ns_[static_cast<int>(Phase::kFlush)] = Trace::Now();
    if (evaluate) {
      const absl::StatusOr<double> loss = Evaluate();
      if (memory_refused_) {  // the step itself is whole, and has its row
        EndRow(row);
        RETURN_IF_ERROR(journal_->Step(row));
        return EndAfterRefusal(loss.status());
      }
      RETURN_IF_ERROR(loss.status());
      result.evaluation_loss = *loss;
      progress.Clear();
      const bool best = journal_->best() && journal_->best()->step == step;
      LogInfo(absl::StrFormat("step %d: held-out loss %.4f%s%s", step, *result.evaluation_loss,
                              PerplexityText(*result.evaluation_loss),
                              best ? ", the best so far" : ""));
    }
    // The rows before the commit that covers them: killed between the two, a resumed run
    // drops them and takes the step again. The commit's wait shows in the next row.
    EndRow(row);
    EndStepOfTrace(row, step > first_step && !flush && row.commit_seconds == 0);
    RETURN_IF_ERROR(journal_->Step(row));
    if (commit) RETURN_IF_ERROR(StartCommit(step == options_.steps));
    summary.Add(row);
    if (row.tokens > 0) {
      if (!result.first_loss) result.first_loss = row.loss;
      result.last_loss = row.loss;
    }
    progress.Update(
        step,
        absl::StrFormat("%s%s  %.0f tokens/s",
                        row.tokens > 0 ? absl::StrFormat("loss %.4f", row.loss) : "no labels",
                        row.skipped ? " (skipped)" : "", row.tokens / std::max(1e-9, row.seconds)));
  }
  RETURN_IF_ERROR(memory_->Flush());
  RETURN_IF_ERROR(manager_->AwaitCommit());
  RETURN_IF_ERROR(CountWritten());
  if (storage_->copies()) {
    RETURN_IF_ERROR(Annotate(storage_->copies()->Wait(),
                             "the commit in --output is good, but not the copy in --persist (give "
                             "it room, then --resume copies it)"));
  }
  if (state_.step < options_.steps) {
    result.end = TrainResult::End::kStopped;
    result.stop_signal = StopSignal::received();
  }
  const SwapStats at_end = manager_->stats();
  result.step = state_.step;
  if (journal_->best()) {
    result.best_evaluation_loss = journal_->best()->loss;
    result.best_evaluation_step = journal_->best()->step;
  }
  result.nvme_read_bytes = at_end.io.read_bytes - at_start.io.read_bytes;
  result.nvme_written_bytes = at_end.io.written_bytes - at_start.io.written_bytes;
  result.peak_device_bytes = compute_->peak_bytes();
  result.peak_host_bytes = host_budget_->peak_bytes();
  result.peak_rss_bytes = PeakResidentBytes();
  result.seconds = MonotonicSeconds() - began;
  result.io_engine = std::string(manager_->engine_name());
  result.residency = plan().Residency();
  result.lookahead = plan().lookahead;
  result.kept_graphs = graphs_.kept();
  result.host_arena_bytes = plan().host_arena_bytes;
  JudgeForecast(summary, result);
  result.speed = summary.Text(model_.parameter_count(), workers_, options_.drive_bytes_per_day);
  result.run_written_bytes = written_->total();
  return result;
}

}  // namespace spillway
