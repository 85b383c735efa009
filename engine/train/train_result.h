// What a run tells whoever started it. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/numeric/quality.h"
#include "swap/plan/plan_residency.h"

namespace spillway {

struct TrainResult {
  // How it ended: at the last step, by a signal (or --max-bytes-written) after committing, maybe
  // before the evaluation of the last step, or it had already finished.
  enum class End { kFinished, kStopped, kAlreadyFinished };
  End end = End::kFinished;
  int64_t step = 0;
  std::optional<double> first_loss;  // of the steps of this process
  std::optional<double> last_loss;
  std::optional<double> first_evaluation_loss;
  std::optional<double> evaluation_loss;
  std::vector<QualityMeasure> evaluation_quality;  // beside that loss
  std::optional<double> best_evaluation;           // options.metric's, of the whole run
  int64_t best_evaluation_step = 0;
  int stop_signal = 0;             // 0: what stopped it was the limit of bytes written
  uint64_t run_written_bytes = 0;  // by all processes of the run
  std::string missed_copies;       // CommitCopies::Missed

  uint64_t nvme_read_bytes = 0;
  uint64_t nvme_written_bytes = 0;
  uint64_t peak_device_bytes = 0;
  uint64_t peak_host_bytes = 0;
  uint64_t peak_rss_bytes = 0;
  double seconds = 0;
  std::string io_engine;
  // What the plan decided.
  PlanResidency residency;
  int lookahead = 0;
  int kept_graphs = 0;  // units whose backward recomputes nothing
  uint64_t host_arena_bytes = 0;

  // Predicted before the first step (none: nothing was), and the median of this process's
  // steps; the first, which runs no deferred update, does not count where there are others.
  std::optional<double> predicted_seconds;
  std::string binding;  // what binds the step by that: "disk", "compute", "update", ...
  // The same with nothing changed but the disk's rates, as observed in those steps.
  std::optional<double> predicted_at_observed_rates_seconds;
  double median_seconds = 0;
  std::string speed;  // StepSummary's lines
};

}  // namespace spillway
