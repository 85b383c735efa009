#include "engine/train/trainer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/stop_signal.h"
#include "engine/estimate/step_forecast.h"
#include "engine/machine/machine_facts.h"
#include "engine/machine/memory_limits.h"
#include "engine/model/model_description.h"
#include "engine/numeric/lr_schedule.h"
#include "engine/numeric/metric_schedule.h"
#include "engine/options/run_change.h"
#include "engine/ranks/patient_ranks.h"
#include "engine/ranks/shard_plan.h"
#include "engine/report/metrics.h"
#include "engine/report/run_description.h"
#include "engine/report/tensorboard_writer.h"
#include "engine/run/run_commit.h"
#include "engine/run/run_state.h"
#include "engine/train/evaluation_passes.h"
#include "engine/train/first_state.h"
#include "io/base/check.h"
#include "io/base/clock.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

double ClipCoefficient(double clip, double norm) {
  return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

// Inputs that were good when the run began and are not any more, such as a replaced or missing
// file, are not bad input (exit code 2), but a failure.
absl::Status FailedWhileRunning(const absl::Status& status) {
  return ExitCodeOf(status) == 2 ? absl::Status(absl::StatusCode::kAborted, status.message())
                                 : status;
}

void SayChanges(const std::vector<RunChange>& changes, int rank) {
  if (changes.empty() || rank > 0) return;
  std::vector<std::string> parts;
  for (const RunChange& change : changes) parts.push_back(Describe(change));
  LogWarning(absl::StrCat("from step ", changes[0].step,
                          " on this is not the run that was asked for first (--allow-change): ",
                          absl::StrJoin(parts, ", ")));
}

// Agrees unless ranks cannot reach each other, which would only mean another wait.
absl::Status AgreeWhereHeard(Collectives* ranks, const absl::Status& own) {
  if (absl::IsUnavailable(own) || absl::IsDeadlineExceeded(own)) return own;
  return AgreeAll(ranks, own);
}

}  // namespace

Trainer::Trainer(RunContext context)
    : context_(std::move(context)),
      options_(context_.options),
      loss_scaler_(options_.loss_scale),
      writes_(&context_) {}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(RunContext context) {
  auto trainer = std::unique_ptr<Trainer>(new Trainer(std::move(context)));
  Trainer& t = *trainer;
  const TrainOptions& options = t.options_;
  const RunStorage& storage = *t.context_.storage;
  RETURN_IF_ERROR(ValidateOptimizer(options.optimizer));
  RETURN_IF_ERROR(CheckMasters(options.optimizer, options.dtype));
  RETURN_IF_ERROR(ValidateSchedule(options.schedule));
  RETURN_IF_ERROR(ValidateLossScale(options.loss_scale));
  SPILLWAY_CHECK(options.steps > 0 && (options.ranks > 1) == (t.context_.ranks.world != nullptr));
  if (storage.committed()) {
    t.state_ = *storage.committed();
    ASSIGN_OR_RETURN(
        const std::vector<RunChange> changes,
        CompareIdentity(t.state_, RunIdentity(options), options.allow_change, options.data_name));
    SPILLWAY_CHECK(options.SamplesBefore(t.state_.step + 1) == t.state_.samples);
    SayChanges(changes, options.rank);
    t.state_.changes.insert(t.state_.changes.end(), changes.begin(), changes.end());
    RETURN_IF_ERROR(CheckSameModel(t.state_.model, t.context_.model));
    t.loss_scaler_.Restore(t.state_.loss_scale);
  }
  t.state_.finished = false;
  t.state_.dtype = options.dtype;
  t.state_.threads = options.threads;
  t.state_.identity = RunIdentity(options);
  t.state_.model = t.context_.model;
  if (!options.tensorboard.empty()) {
    RETURN_IF_ERROR(TensorBoardWriter::PrepareDirectory(options.tensorboard));
  }
  std::vector<std::string> units;
  for (const UnitDescription& unit : t.context_.model.units) units.push_back(unit.name);
  ASSIGN_OR_RETURN(t.recorder_, StepRecorder::Create(options.trace, std::move(units)));
  ASSIGN_OR_RETURN(t.setup_,
                   RunSetup::Create(&t.context_, &t.writes_, t.recorder_->trace(), t.state_));
  t.meter_ = std::make_unique<StepMeter>(&t.context_, t.setup_.get(), t.recorder_.get());
  t.totals_ = std::make_unique<RankTotals>(&t.context_, t.setup_.get(), t.meter_.get());
  t.commits_ = std::make_unique<CommitStarter>(&t.context_, t.setup_.get(), t.meter_.get(),
                                               t.recorder_.get(), &t.state_);
  t.rescue_ = std::make_unique<TrainerRescue>(&t.context_, t.setup_.get(), t.commits_.get(),
                                              &t.writes_, &t.state_);
  return trainer;
}

absl::Status Trainer::Start(WeightSource* weights) {
  Collectives* const ranks = context_.ranks.world;
  // All ranks return together, or none: one that continued would misread the next exchange.
  RETURN_IF_ERROR(context_.storage->CommitMove(setup_->store(), ranks));
  RETURN_IF_ERROR(AgreeAll(ranks, writes_.Open(setup_->manager())));
  // If any rank fails before every rank has loaded its state, the files of a new run are removed.
  const absl::Status brought = AgreeWhereHeard(ranks, BringFirstState(weights));
  if (absl::IsCancelled(brought)) {  // a signal, which all ranks must know of
    RETURN_IF_ERROR(totals_->AnyStops(StopSignal::received()).status());
  }
  RETURN_IF_ERROR(brought);
  // A run whose steps are complete still makes a commit and copies it.
  if (state_.step < options_.steps) RETURN_IF_ERROR(context_.storage->FinishCopies(ranks));
  return AgreeWhereHeard(ranks, OpenJournal());
}

absl::Status Trainer::BringFirstState(WeightSource* weights) {
  if (!context_.storage->committed()) {
    RETURN_IF_ERROR(WriteFirstState(context_, *setup_, weights));
    state_.buffers = context_.compute->Buffers();
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(context_.compute->SetBuffers(state_.buffers));
  RETURN_IF_ERROR(setup_->RestoreOptimizer(state_));
  // A changed rate or schedule begins at the step of the change.
  const bool other_rate =
      std::any_of(state_.changes.begin(), state_.changes.end(), [&](const RunChange& change) {
        const absl::string_view by = ChangeableBy(change.name);
        return change.step == state_.step + 1 && (by == "lr" || by == "schedule");
      });
  if (other_rate) state_.metric_schedule = MetricScheduleState();
  RETURN_IF_ERROR(setup_->manager()->LoadResident());
  LogInfo(absl::StrCat("resuming after step ", state_.step));
  return absl::OkStatus();
}

absl::Status Trainer::OpenJournal() {
  RunDescription run = DescribeRun(options_, context_.model, plan());
  run.computing_bytes = setup_->computing_bytes();
  run.io_engine = std::string(manager()->engine_name());
  run.changes = state_.changes;
  const ProcessorFacts processor = ProbeProcessor();
  run.parts.back().machine = {processor.cpu, processor.cores, processor.memory_bytes};
  // Without a commit no rows are kept, not even that of the evaluation before step 1 (step 0).
  const int64_t kept = context_.storage->committed() ? state_.step : -1;
  ASSIGN_OR_RETURN(journal_, RunJournal::Open(context_.storage->output(), options_.tensorboard,
                                              kept, std::move(run)));
  journal_->DrawTimeline(&recorder_->timeline());
  commits_->CoverRowsOf(journal_.get());
  writes_.ShowIn(journal_.get());
  return writes_.AtRest();
}

absl::StatusOr<TrainResult> Trainer::Run() {
  absl::StatusOr<TrainResult> result = RunSteps();
  if (rescue_->needed()) {
    result = rescue_->End(result.status());
    if (GaveUpReading(result.status())) {
      RETURN_IF_ERROR(totals_->AnyStops(StopSignal::received()).status());
      result = TrainResult();
      Conclude(*result);
    }
  }
  recorder_->Finish();
  if (!result.ok()) result = FailedWhileRunning(result.status());
  if (!result.ok()) {
    journal_->End("failed", std::string(result.status().message()));
  } else if (result->end == TrainResult::End::kStopped) {
    const std::string text = StopText();
    if (totals_->stop_reason().rank != options_.rank) LogInfo(text + " stops all ranks");
    journal_->End("stopped", text);
  } else {
    journal_->End("finished");
  }
  return result;
}

// Whether reading a slow sample (StopPatience) was ended by a signal before anything of its step
// began, and the earlier work is committed. Several ranks stop between steps.
bool Trainer::GaveUpReading(const absl::Status& ended) const {
  return context_.ranks.world == nullptr && absl::IsCancelled(ended) &&
         StopSignal::received() != 0 &&
         (options_.no_commit || commits_->last_step() == state_.step);
}

absl::StatusOr<TrainResult> Trainer::RunSteps() {
  TrainResult result;
  const double began = MonotonicSeconds();
  const SwapStats at_start = manager()->stats();
  first_step_ = state_.step + 1;
  recorder_->Begin(first_step_);
  ASSIGN_OR_RETURN(const bool evaluated, EvaluateFirst(result));
  state_.finished = state_.step == options_.steps && evaluated;
  StepProgress progress(options_.steps, Epochs(), options_.data_size.unit);
  meter_->Begin();
  recorder_->BeginSteps();
  commits_->BeginSteps();
  // Signals are checked once a step: a later one counts for the next step.
  ASSIGN_OR_RETURN(bool stop, totals_->AnyStops(StopSignal::received()));
  while (state_.step < options_.steps && !stop) {
    ASSIGN_OR_RETURN(stop, TakeStep(result, progress));
  }
  if (first_step_ > options_.steps && state_.finished) RETURN_IF_ERROR(commits_->StartAgain());
  RETURN_IF_ERROR(Finish());
  ASSIGN_OR_RETURN(result.run_written_bytes, totals_->Sum(writes_.total_bytes()));
  const SwapStats at_end = manager()->stats();
  result.nvme_read_bytes = at_end.io.read_bytes - at_start.io.read_bytes;
  result.nvme_written_bytes = at_end.io.written_bytes - at_start.io.written_bytes;
  result.seconds = MonotonicSeconds() - began;
  Conclude(result);
  return result;
}

absl::StatusOr<bool> Trainer::TakeStep(TrainResult& result, StepProgress& progress) {
  const int64_t step = state_.step + 1;
  RETURN_IF_ERROR(context_.storage->CheckStillThere());
  StepMetrics row;
  RETURN_IF_ERROR(writes_.BeforeStep());
  RETURN_IF_ERROR(RunTrainStep(step, row));
  RETURN_IF_ERROR(writes_.AfterStep());
  ASSIGN_OR_RETURN(bool stop, StopsNow());
  const bool evaluate = EvaluateAfter(step);
  // The last row includes the update that no later step runs.
  const bool flush = evaluate || stop || step == options_.steps;
  if (flush) {
    StepMeter::Wait wait(*meter_);
    RETURN_IF_ERROR(setup_->memory()->Flush());
    wait.End();
  }
  meter_->EndPhase(Phase::kFlush);
  bool given_up = false;
  if (evaluate) {
    const absl::StatusOr<std::optional<EvaluationMetrics>> found = Evaluate();
    if (rescue_->needed()) {  // the step itself is complete, and has its row
      meter_->EndRow(row);
      RETURN_IF_ERROR(journal_->Step(row));
    }
    RETURN_IF_ERROR(found.status());
    given_up = !*found;
    if (*found) RETURN_IF_ERROR(TakeEvaluation(**found, result));
  }
  stop |= given_up;
  // Without commits no later process can make the evaluation.
  state_.finished = step == options_.steps && (!given_up || options_.no_commit);
  // Rows are written before the commit that covers them: if killed between the two, a resumed run
  // drops them and takes the step again. The commit's wait is in the next row.
  meter_->EndRow(row);
  meter_->EndStepOfTrace(row, step > first_step_ && !flush && row.commit_seconds == 0);
  RETURN_IF_ERROR(journal_->Step(row));
  commits_->CountWait(row.commit_seconds);
  RETURN_IF_ERROR(commits_->AfterStep(stop));
  if (row.labels > 0) {
    summary_.Add(row);
    if (!result.first_loss) result.first_loss = row.loss;
    result.last_loss = row.loss;
  }
  progress.Show(row);
  return stop;
}

// Whether this step is the last one, because of a signal to any rank or the limit of all. The
// enqueued part of the next step is then cancelled.
absl::StatusOr<bool> Trainer::StopsNow() {
  int64_t own = StopSignal::received();
  ASSIGN_OR_RETURN(const bool at_limit, writes_.IsAtLimit());
  if (own == 0 && at_limit) own = RankTotals::kAtLimit;
  bool commit = commits_->IsDueByTime() && writes_.CommitFits();
  ASSIGN_OR_RETURN(const bool stop, totals_->AnyStops(own, &commit));
  if (commit) commits_->MakeDue();
  if (stop) RETURN_IF_ERROR(AbandonEnqueued());
  return stop;
}

absl::Status Trainer::Finish() {
  RETURN_IF_ERROR(setup_->memory()->Flush());
  RETURN_IF_ERROR(manager()->AwaitCommit());
  RETURN_IF_ERROR(writes_.AtRest());
  if (context_.storage->copies() == nullptr) return absl::OkStatus();
  // One rank's work may take longer than the timeout of exchanges.
  const std::unique_ptr<PatientRanks> patient = PatientRanks::Among(context_.ranks);
  const absl::Status copied = AwaitCopies(*context_.storage, patient.get());
  journal_->SetWarning(context_.storage->copies()->Missed());
  return Annotate(copied,
                  "the commit in --output is good, but not the copy in --persist (give "
                  "it room, then --resume copies it)");
}

void Trainer::Conclude(TrainResult& result) {
  if (!state_.finished) {
    result.end = TrainResult::End::kStopped;
    result.stop_signal = stop_signal();
  }
  result.step = state_.step;
  if (context_.storage->copies() != nullptr) {
    result.missed_copies = context_.storage->copies()->Missed();
  }
  if (journal_->best()) {
    result.best_evaluation = journal_->best()->value;
    result.best_evaluation_step = journal_->best()->step;
  }
  result.peak_device_bytes = context_.compute->peak_bytes();
  result.peak_host_bytes = setup_->peak_host_bytes();
  result.peak_rss_bytes = PeakResidentBytes();
  result.io_engine = std::string(manager()->engine_name());
  result.residency = plan().Residency();
  result.lookahead = plan().lookahead;
  result.kept_graphs = setup_->kept_graphs();
  result.host_arena_bytes = plan().host_arena_bytes;
  if (setup_->forecast()) {
    result.predicted_seconds = setup_->forecast()->predicted_seconds;
    result.binding = std::string(ResourceName(setup_->forecast()->binding));
  }
  result.median_seconds = summary_.median_seconds();
  result.predicted_at_observed_rates_seconds = summary_.PredictAgain(plan(), setup_->clock());
  journal_->SetPredictedAtObservedRates(result.predicted_at_observed_rates_seconds);
  result.speed = summary_.Text(setup_->workers(), options_.drive_bytes_per_day, options_);
}

// "SIGTERM", or if another rank received it "SIGTERM to rank 1".
std::string Trainer::StopText() const {
  const StopReason& reason = totals_->stop_reason();
  std::string text = reason.signal != 0 ? StopSignal::Name(reason.signal) : "--max-bytes-written";
  if (reason.rank != options_.rank) absl::StrAppend(&text, " to rank ", reason.rank);
  return text;
}

// Number of times that the whole run uses each sample of its data; 0 if their number is not known.
double Trainer::Epochs() const {
  const int64_t samples = context_.compute->training_samples();
  if (samples == 0) return 0;
  const int64_t a_step = options_.micro_batch * options_.accumulate * options_.ranks;
  return static_cast<double>(options_.steps) * static_cast<double>(a_step) /
         static_cast<double>(samples);
}

bool Trainer::EvaluateAfter(int64_t step) const {
  if (context_.compute->evaluation_samples() == 0) return false;
  return step == options_.steps || (options_.eval_every > 0 && step % options_.eval_every == 0);
}

absl::Status Trainer::RunOps(int64_t count) {
  StepMemory& memory = *setup_->memory();
  for (int64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const OpBuffers buffers, memory.BeginOp());
    const double began = MonotonicSeconds();
    {
      // A separate device computes after this call, so the mover records its span.
      Trace* const trace = context_.device == nullptr ? recorder_->trace() : nullptr;
      const TraceSpan span(trace, SpanKindOf(buffers.op->kind), buffers.op->unit);
      RETURN_IF_ERROR(rescue_->NoteOutOfMemory(context_.compute->Run(buffers)));
    }
    meter_->CountCompute(MonotonicSeconds() - began);
    memory.EndOp();
    recorder_->Drain();
  }
  return absl::OkStatus();
}

absl::Status Trainer::RunTrainStep(int64_t step, StepMetrics& row) {
  StepCompute& compute = *context_.compute;
  StepMemory& memory = *setup_->memory();
  const bool deferred = setup_->deferred();
  const bool half = options_.dtype == DType::kFloat16;
  const double loss_scale = half ? loss_scaler_.scale() : 1;
  row.step = step;
  row.deferred = deferred;
  // Skipped steps advance neither the schedule nor the bias corrections.
  UpdateScalars scalars = {.step = state_.applied_steps + 1};
  scalars.learning_rate = LearningRate(
      options_.schedule, state_.metric_schedule.rate.value_or(options_.optimizer.learning_rate),
      scalars.step, options_.steps);
  scalars.betas = ScheduledBetas(options_.schedule, scalars.step);
  row.learning_rate = scalars.learning_rate;
  if (half) row.loss_scale = loss_scale;

  RETURN_IF_ERROR(rescue_->NoteNotBegun(compute.BeginTrain(step, loss_scale)));
  ASSIGN_OR_RETURN(const int64_t tokens, totals_->ShareCounts());
  if (compute.label_count() == 0) return PassOver(row);
  if (!std::exchange(program_enqueued_, false)) EnqueueStep(step);
  if (!deferred) {
    memory.AnnounceUpdate(scalars);
    // The next step's first fetches, and its updates, overlap this step's end.
    if (step < options_.steps && !EvaluateAfter(step)) {
      EnqueueStep(step + 1);
      program_enqueued_ = true;
    }
  }
  const int64_t forward_ops = setup_->evaluate_ops() - 1;
  RETURN_IF_ERROR(RunOps(forward_ops));
  meter_->EndPhase(Phase::kForward);
  RETURN_IF_ERROR(RunOps(memory.schedule().ops.size() - forward_ops));
  meter_->EndPhase(Phase::kBackward);
  row.tokens = tokens;
  row.labels = compute.label_count();
  row.samples = options_.micro_batch * options_.accumulate * options_.ranks;
  ASSIGN_OR_RETURN(row.loss, totals_->MeanLoss(row.labels));
  RETURN_IF_ERROR(totals_->ShareBuffers());

  if (deferred) {
    StepMeter::Wait wait(*meter_);
    ASSIGN_OR_RETURN(const GradientTotal total, memory.AwaitGradients());
    wait.End();
    const double norm = std::sqrt(total.sum_of_squares) / loss_scale;
    row.grad_norm = norm;
    scalars.skip = half && !total.finite;
    if (!total.finite && !half) {
      return absl::OutOfRangeError(absl::StrCat(
          "step ", step, ": a gradient is not finite (the norm is ", norm, "); ",
          NotFiniteRemedy(options_.dtype), "; ",
          commits_->last_step() > 0 ? "earlier commits are good" : "no commit was made before"));
    }
    scalars.gradient_scale = ClipCoefficient(options_.clip, norm) / loss_scale;
    row.skipped = scalars.skip;
    RETURN_IF_ERROR(totals_->MeasureUpdate(scalars, total.sum_of_squares));
    memory.AnnounceUpdate(scalars);
  }
  if (half)
    RETURN_IF_ERROR(Annotate(loss_scaler_.Update(row.skipped), absl::StrCat("step ", step)));
  if (!row.skipped) ++state_.applied_steps;
  state_.step = step;
  state_.samples = options_.SamplesBefore(step + 1);
  state_.buffers = compute.Buffers();  // the next step's forwards change them
  state_.loss_scale = loss_scaler_.state();
  return absl::OkStatus();
}

// If the step's data cannot be read, the step itself reports the error.
void Trainer::EnqueueStep(int64_t step) {
  const bool looks = setup_->sharded() == nullptr && !plan().separate_device;
  absl::StatusOr<FirstRead> first_read =
      looks ? context_.compute->ReadFirst(step, plan().layout) : FirstRead();
  setup_->memory()->Enqueue(Program::kTrain, std::move(first_read).value_or(FirstRead()));
}

// A step without labels, which skips everything: also momentum, decay and running statistics.
// Updates of the previous step still run, since a commit may wait for them.
absl::Status Trainer::PassOver(StepMetrics& row) {
  row.loss = std::nan("");
  row.skipped = true;
  RETURN_IF_ERROR(AbandonEnqueued());
  state_.step = row.step;
  state_.samples = options_.SamplesBefore(row.step + 1);
  return setup_->memory()->Flush();
}

absl::Status Trainer::AbandonEnqueued() {
  if (!std::exchange(program_enqueued_, false)) return absl::OkStatus();
  RETURN_IF_ERROR(setup_->memory()->AwaitProgram());
  setup_->memory()->AbandonQueued();
  return absl::OkStatus();
}

absl::StatusOr<bool> Trainer::EvaluateFirst(TrainResult& result) {
  const bool begins = state_.step == 0;
  const bool due = begins ? context_.compute->evaluation_samples() > 0 : EvaluateAfter(state_.step);
  if (!due) return true;
  // OUTPUT's rows are the first rank's; a rank that was not the first before has none.
  ASSIGN_OR_RETURN(const int64_t judged, totals_->OfFirstRank(journal_->last_evaluation()));
  if (!begins && judged >= state_.step) return true;
  ASSIGN_OR_RETURN(const std::optional<EvaluationMetrics> first, Evaluate());
  if (first && begins) {
    result.first_evaluation_loss = first->loss;
    LogInfo(absl::StrFormat("held-out loss before training %.4f", first->loss));
  } else if (first) {
    RETURN_IF_ERROR(TakeEvaluation(*first, result));
  }
  return first.has_value();
}

absl::Status Trainer::TakeEvaluation(const EvaluationMetrics& metrics, TrainResult& result) {
  result.evaluation_loss = metrics.loss;
  result.evaluation_quality = metrics.quality;
  const bool best = journal_->best() && journal_->best()->step == metrics.step;
  LogInfo(absl::StrFormat("step %d: held-out loss %.4f%s%s", metrics.step, metrics.loss,
                          BesideLossText(metrics.loss, metrics.quality),
                          best ? ", the best so far" : ""));
  if (!FollowsMetric(options_.schedule.kind)) return absl::OkStatus();
  // Only the first rank measures generated texts.
  ASSIGN_OR_RETURN(const int64_t bits,
                   totals_->OfFirstRank(std::bit_cast<int64_t>(metrics.metric_value())));
  const std::optional<double> had = state_.metric_schedule.rate;
  FollowMetric(options_.schedule.metric, options_.optimizer.learning_rate,
               std::bit_cast<double>(bits), state_.metric_schedule);
  if (state_.metric_schedule.rate != had) {
    LogInfo(
        absl::StrFormat("the learning rate is %g from the next step on",
                        state_.metric_schedule.rate.value_or(options_.optimizer.learning_rate)));
  }
  return absl::OkStatus();
}

// nullopt: the evaluation was ended because the run is to stop.
absl::StatusOr<std::optional<EvaluationMetrics>> Trainer::Evaluate() {
  const TraceSpan span(recorder_->trace(), SpanKind::kEvaluation);
  StepMeter::Pause pause(*meter_);
  const double began = MonotonicSeconds();
  EvaluationPasses passes(context_.compute, totals_.get(), rescue_.get(), GridOf(options_),
                          [&]() -> absl::Status {
                            setup_->memory()->Enqueue(Program::kEvaluate);
                            return RunOps(setup_->evaluate_ops());
                          });
  absl::StatusOr<EvaluationMetrics> row = passes.Run(plan().device_activation_bytes);
  if (absl::IsCancelled(row.status()) && totals_->stop_reason().rank >= 0) {
    LogInfo(absl::StrCat("step ", state_.step, ": the evaluation is given up",
                         options_.no_commit ? "" : "; --resume begins with it"));
    return std::nullopt;
  }
  RETURN_IF_ERROR(row.status());
  absl::StatusOr<std::vector<SampleText>> samples = passes.WriteSamples();
  if (absl::IsCancelled(samples.status()) && totals_->stop_reason().rank >= 0) {
    LogInfo(absl::StrCat("step ", state_.step, ": its sample texts are given up"));
    samples = std::vector<SampleText>();
  }
  RETURN_IF_ERROR(samples.status());
  row->step = state_.step;
  row->metric = options_.metric;
  row->data = options_.evaluation_data;
  row->seconds = MonotonicSeconds() - began;
  // Another rank than the first may have this row already.
  if (journal_->last_evaluation() < state_.step) {
    RETURN_IF_ERROR(journal_->Samples(state_.step, *samples));
    RETURN_IF_ERROR(journal_->Evaluation(*row));
  }
  pause.End();
  return *std::move(row);
}

}  // namespace spillway
