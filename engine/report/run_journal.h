// What a run writes down about itself: a row for each step and evaluation, TensorBoard's
// events, run.json and the report. One thread.
//
// Rows are the record, and an error with them ends the run. Everything else is a
// convenience: where it cannot be written, a warning says so once and training goes on.
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
  // Goes on with what is in `output` of steps up to `last_step` (-1: nothing counts) and
  // drops the rest. `run` has no part, or one that says what this process is; that is filled in,
  // and stands behind those of earlier processes.
  // `tensorboard` may be empty. `clock`: seconds since 1970, for tests.
  static absl::StatusOr<std::unique_ptr<RunJournal>> Open(
      const std::string& output, const std::string& tensorboard, int64_t last_step,
      RunDescription run, std::function<double()> clock = TensorBoardWriter::SystemClock());
  // Without End before it: the run failed, and nobody said why.
  ~RunJournal();

  // What the report draws, and OUTPUT/timeline.json keeps, from here on; outlives the journal.
  void DrawTimeline(const std::optional<StepTimeline>* timeline) { timeline_ = timeline; }

  // To its drives, by all processes of the run so far.
  void SetWritten(uint64_t bytes) { run_.written_bytes = bytes; }

  // As the steps of this process had the disk.
  void SetPredictedAtObservedRates(std::optional<double> seconds) {
    run_.predicted_at_observed_rates_seconds = seconds;
  }

  // What went wrong and does not end the run; "": nothing. run.json and the report say so from
  // their next making on.
  void SetWarning(const std::string& text) { run_.parts.back().warning = text; }

  absl::Status Step(const StepMetrics& metrics);
  // What an evaluation has written behind prompts; may be none.
  absl::Status Samples(int64_t step, const std::vector<SampleText>& samples);
  // Fills in `best` and `best_step`.
  absl::Status Evaluation(EvaluationMetrics& metrics);
  // The best evaluation so far, of earlier processes too.
  const std::optional<RunRows::Best>& best() const { return rows_.best; }
  // The step of the last evaluation, of earlier processes too; -1: there was none.
  int64_t last_evaluation() const;

  // Makes the rows durable: before the commit that covers them.
  absl::Status Sync();
  // A commit of the state after `step` has begun; run.json says so at once.
  void Commit(int64_t step);
  // How it ended: "finished", "stopped" (the message is the signal's name) or "failed" (the
  // error). The last report is written.
  void End(const std::string& state, const std::string& message = "");

 private:
  RunJournal(const std::string& output, RunDescription run, std::function<double()> clock);
  void ContinueDescription(int64_t last_step);
  void WarnOnce(const absl::Status& status);
  void ToTensorBoard(int64_t step, const TensorBoardWriter::Scalars& scalars);
  // run.json and report.html, when they are due.
  // Whether they were.
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
  std::unique_ptr<MetricsLog> samples_;  // null: none were written yet
  std::unique_ptr<TensorBoardWriter> tensorboard_;
  std::optional<double> reported_;  // when the last report was made
  double report_seconds_ = 0;       // how long that took
  bool warned_ = false;
  bool ended_ = true;  // until it is open
};

}  // namespace spillway
