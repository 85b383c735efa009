// The records that a run writes: a row for each step and evaluation, TensorBoard's events, run.json
// and the report. One thread.
//
// Rows are the record, and an error in writing them ends the run. Everything else is optional: if
// it cannot be written, a warning is logged once and training continues.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/measures/sample_text.h"
#include "engine/report/metrics.h"
#include "engine/report/report_series.h"
#include "engine/report/run_description.h"
#include "engine/report/step_timeline.h"
#include "engine/report/tensorboard_writer.h"
#include "engine/run/metrics_log.h"

namespace spillway {

class RunJournal {
 public:
  // Continues the records in `output` of steps up to `last_step` (-1: none) and drops later ones.
  // `run` has no part, or one that describes this process; it is completed and appended to those of
  // earlier processes. `tensorboard` may be empty. `clock`: seconds since 1970, for tests.
  static absl::StatusOr<std::unique_ptr<RunJournal>> Open(
      const std::string& output, const std::string& tensorboard, int64_t last_step,
      RunDescription run, std::function<double()> clock = TensorBoardWriter::SystemClock());
  // If End was not called, records that the run failed without a reason.
  ~RunJournal();

  // Sets the time line that the report and OUTPUT/timeline.json show; it outlives the journal.
  void DrawTimeline(const std::optional<StepTimeline>* timeline) { timeline_ = timeline; }

  // Sets the bytes written to drives by all processes of the run so far.
  void SetWritten(uint64_t bytes) { run_.written_bytes = bytes; }

  // Sets the predicted step time at the disk rates of this process's steps.
  void SetPredictedAtObservedRates(std::optional<double> seconds) {
    run_.predicted_at_observed_rates_seconds = seconds;
  }

  // Sets a problem that does not end the run; "": none. run.json and the report show it from their
  // next update on.
  void SetWarning(const std::string& text) { run_.parts.back().warning = text; }

  absl::Status Step(const StepMetrics& metrics);
  // Records the texts of an evaluation for prompts; may be empty.
  absl::Status Samples(int64_t step, const std::vector<SampleText>& samples);
  // Records an evaluation, and sets its `best` and `best_step`.
  absl::Status Evaluation(EvaluationMetrics& metrics);
  // The best evaluation so far, including those of earlier processes.
  const std::optional<RunRows::Best>& best() const { return rows_.best; }
  // The step of the last evaluation, of earlier processes too; -1: there is none.
  int64_t last_evaluation() const;

  // Makes the rows durable; called before the commit that covers them.
  absl::Status Sync();
  // Records in run.json that a commit of the state after `step` has begun.
  void Commit(int64_t step);
  // Records the end: "finished", "stopped" (the message is the signal's name) or "failed" (the
  // error). Writes the last report.
  void End(const std::string& state, const std::string& message = "");

 private:
  RunJournal(const std::string& output, RunDescription run, std::function<double()> clock);
  void ContinueDescription(int64_t last_step);
  void WarnOnce(const absl::Status& status);
  void ToTensorBoard(int64_t step, const TensorBoardWriter::Scalars& scalars);
  // Writes run.json and report.html if they are due. Returns whether they were.
  bool MaybeReport(double pause_seconds);
  void Report();
  absl::Status WriteDescription() const;

  const std::string output_;
  const std::function<double()> clock_;
  RunDescription run_;
  RunRows rows_;
  const std::optional<StepTimeline>* timeline_ = nullptr;
  std::unique_ptr<MetricsLog> metrics_;
  std::unique_ptr<MetricsLog> evaluations_;
  std::unique_ptr<MetricsLog> samples_;  // null: none written yet
  std::unique_ptr<TensorBoardWriter> tensorboard_;
  std::optional<double> reported_;  // time of the last report
  double report_seconds_ = 0;       // duration of the last report
  bool warned_ = false;
  bool ended_ = true;  // true until it is open
};

}  // namespace spillway
