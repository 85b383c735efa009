#include "engine/report/run_journal.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/report/report.h"
#include "engine/run/run_state.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

// Intervals between reports: this time; in the first minutes a part of the time since the process's
// start; and a multiple of the duration of the last report.
constexpr double kReportEverySeconds = 60;
constexpr double kReportFirstSeconds = 2;
constexpr double kReportGrowth = 0.2;
constexpr double kReportAtCommitSeconds = 5;
constexpr double kReportCostFactor = 100;

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace

RunJournal::RunJournal(const std::string& output, RunDescription run, std::function<double()> clock)
    : output_(output), clock_(std::move(clock)), run_(std::move(run)) {}

absl::StatusOr<std::unique_ptr<RunJournal>> RunJournal::Open(const std::string& output,
                                                             const std::string& tensorboard,
                                                             int64_t last_step, RunDescription run,
                                                             std::function<double()> clock) {
  std::unique_ptr<RunJournal> journal(new RunJournal(output, std::move(run), std::move(clock)));
  RunRows& rows = journal->rows_;
  ASSIGN_OR_RETURN(journal->metrics_,
                   MetricsLog::Open(output + "/metrics.jsonl", last_step,
                                    [&](const nlohmann::json& row) { rows.AddStep(row); }));
  ASSIGN_OR_RETURN(journal->evaluations_,
                   MetricsLog::Open(output + "/eval.jsonl", last_step,
                                    [&](const nlohmann::json& row) { rows.AddEvaluation(row); }));
  if (!tensorboard.empty()) {
    ASSIGN_OR_RETURN(journal->tensorboard_,
                     TensorBoardWriter::Open(tensorboard, last_step + 1, journal->clock_));
  }
  if (const std::string path = output + "/samples.jsonl"; Exists(path)) {
    ASSIGN_OR_RETURN(journal->samples_,
                     MetricsLog::Open(path, last_step,
                                      [&](const nlohmann::json& row) { rows.samples.Add(row); }));
  }
  journal->ContinueDescription(last_step);
  journal->ended_ = false;
  return journal;
}

RunJournal::~RunJournal() {
  if (!ended_) End("failed", "the run ended before its last step");
}

// Keeps earlier processes and their commits in the history of a resumed run. A process that was
// killed has not recorded its end: it is derived from its rows and from the commit that the run
// continues from.
void RunJournal::ContinueDescription(int64_t last_step) {
  RunPart part = run_.parts.empty() ? RunPart() : std::move(run_.parts.front());
  run_.parts.clear();
  if (last_step >= 0) {
    absl::StatusOr<RunDescription> before = ReadRunDescription(output_);
    if (before.ok()) {
      run_.parts = std::move(before->parts);
      for (RunPart& part : run_.parts) {
        if (part.state != "running") continue;
        part.state = "killed";
        part.last_step = std::max(part.last_step, metrics_->step_before());
      }
      run_.commits = std::move(before->commits);
      std::erase_if(run_.commits, [&](const RunCommit& c) { return c.step > last_step; });
      run_.commit_count = std::max<int64_t>(before->commit_count, run_.commits.size());
    } else if (!absl::IsNotFound(before.status())) {
      LogWarning(absl::StrCat("the report starts its history anew: ", before.status().message()));
    }
  }
  const bool is_noted = !run_.commits.empty() && run_.commits.back().step == last_step;
  if (last_step > 0 && !is_noted) AddCommit(run_, {last_step, /*time=*/0});
  part.started = clock_();
  part.first_step = std::max<int64_t>(0, last_step) + 1;
  part.last_step = part.first_step - 1;
  part.state = "running";
  part.host = HostName();
  run_.parts.push_back(std::move(part));
}

void RunJournal::ToTensorBoard(int64_t step, const TensorBoardWriter::Scalars& scalars) {
  if (!tensorboard_) return;
  const absl::Status status = tensorboard_->Write(step, scalars);
  if (!status.ok()) {
    LogWarning(
        absl::StrCat("no more events for TensorBoard, training goes on: ", status.message()));
  }
}

absl::Status RunJournal::Step(const StepMetrics& m) {
  const nlohmann::json row = ToJson(m);
  RETURN_IF_ERROR(metrics_->Append(row));
  rows_.AddStep(row);
  run_.parts.back().last_step = m.step;
  TensorBoardWriter::Scalars scalars = {
      {"train/loss", m.loss},
      {"train/lr", m.learning_rate},
      {"speed/samples_per_second", m.seconds > 0 ? m.samples / m.seconds : NAN},
      {"speed/step_seconds", m.seconds},
      {"stall_seconds/disk", m.stall_disk_seconds},
      {"stall_seconds/update", m.stall_update_seconds},
      {"memory_peak_gib/device", std::ldexp(m.peak_device_bytes, -30)},
      {"memory_peak_gib/host", std::ldexp(m.peak_host_bytes, -30)},
      {"memory_peak_gib/resident", std::ldexp(m.peak_rss_bytes, -30)},
      {"nvme_mib/read", std::ldexp(m.nvme_read_bytes, -20)},
      {"nvme_mib/written", std::ldexp(m.nvme_written_bytes, -20)}};
  if (m.tokens > 0) {
    scalars.emplace_back("speed/tokens_per_second", m.seconds > 0 ? m.tokens / m.seconds : NAN);
  }
  if (m.to_device_bytes + m.to_host_bytes > 0) {
    scalars.emplace_back("stall_seconds/copy", m.stall_copy_seconds);
  }
  if (m.collective_bytes > 0) {
    scalars.emplace_back("stall_seconds/collective", m.stall_collective_seconds);
  }
  if (m.grad_norm) scalars.emplace_back("train/grad_norm", *m.grad_norm);
  if (m.loss_scale) scalars.emplace_back("train/loss_scale", *m.loss_scale);
  ToTensorBoard(m.step, scalars);
  MaybeReport(kReportEverySeconds);
  return absl::OkStatus();
}

absl::Status RunJournal::Samples(int64_t step, const std::vector<SampleText>& samples) {
  if (samples.empty()) return absl::OkStatus();
  if (!samples_) {
    ASSIGN_OR_RETURN(samples_, MetricsLog::Open(output_ + "/samples.jsonl", step));
  }
  for (const SampleText& sample : samples) {
    const nlohmann::json row = ToJson(step, sample);
    RETURN_IF_ERROR(samples_->Append(row));
    rows_.samples.Add(row);
  }
  return absl::OkStatus();
}

absl::Status RunJournal::Evaluation(EvaluationMetrics& m) {
  m.best = rows_.WouldBeBest(m.metric, m.data, m.metric_value());
  m.best_step = m.best ? m.step : rows_.best ? rows_.best->step : m.step;
  const nlohmann::json row = ToJson(m);
  RETURN_IF_ERROR(evaluations_->Append(row));
  rows_.AddEvaluation(row);
  TensorBoardWriter::Scalars scalars = {{"eval/loss", m.loss}};
  if (m.has_perplexity) scalars.emplace_back("eval/perplexity", std::exp(m.loss));
  std::vector<std::string> names;
  names.reserve(m.quality.size());
  for (const QualityMeasure& measure : m.quality) {
    scalars.emplace_back(names.emplace_back("eval/" + measure.name), measure.value);
  }
  ToTensorBoard(m.step, scalars);
  return absl::OkStatus();
}

int64_t RunJournal::last_evaluation() const {
  return rows_.evaluations.rows() > 0 ? rows_.evaluations.last_row().value("step", int64_t{-1})
                                      : -1;
}

absl::Status RunJournal::Sync() {
  // A run resumed from the commit writes no events for the steps that it covers.
  if (tensorboard_) WarnOnce(tensorboard_->Flush());
  if (samples_) RETURN_IF_ERROR(samples_->Sync());
  RETURN_IF_ERROR(metrics_->Sync());
  return evaluations_->Sync();
}

void RunJournal::Commit(int64_t step) {
  AddCommit(run_, {step, clock_()});
  if (!MaybeReport(kReportAtCommitSeconds)) WarnOnce(WriteDescription());
}

void RunJournal::End(const std::string& state, const std::string& message) {
  ended_ = true;
  RunPart& part = run_.parts.back();
  part.state = state;
  part.message = message;
  part.ended = clock_();
  if (tensorboard_) WarnOnce(tensorboard_->Flush());
  Report();
}

void RunJournal::WarnOnce(const absl::Status& status) {
  if (status.ok() || std::exchange(warned_, true)) return;
  LogWarning(absl::StrCat("no report of this run, but training goes on: ", status.message()));
}

bool RunJournal::MaybeReport(double pause_seconds) {
  const double age = clock_() - run_.parts.back().started;
  const double young = std::max(kReportFirstSeconds, kReportGrowth * age);
  const double pause =
      std::max(std::min(pause_seconds, young), kReportCostFactor * report_seconds_);
  if (reported_ && clock_() - *reported_ < pause) return false;
  Report();
  return true;
}

absl::Status RunJournal::WriteDescription() const {
  return WriteFileAtomically(
      RunDescriptionPath(output_),
      ToJson(run_).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n",
      FileAccess::kShared);
}

void RunJournal::Report() {
  const double began = clock_();
  ReportInput input;
  input.output = output_;
  input.run = run_;
  input.config = ReadResolvedConfig(output_);
  input.has_commit = Exists(CommitManifestPath(output_));
  input.rows = &rows_;
  input.now = began;
  // run.json is written first: the report can be made again from it and the rows.
  absl::Status status = WriteDescription();
  if (timeline_ != nullptr && timeline_->has_value()) {
    input.timeline = **timeline_;
    status.Update(WriteFileAtomically(TimelinePath(output_), ToJson(*input.timeline).dump() + "\n",
                                      FileAccess::kShared));
  } else if (auto earlier = ReadTimeline(output_); earlier.ok()) {
    input.timeline = *std::move(earlier);  // of the previous process
  }
  status.Update(WriteReport(input, output_ + "/report.html"));
  WarnOnce(status);
  reported_ = clock_();
  report_seconds_ = std::max(0.0, *reported_ - began);
}

}  // namespace spillway
