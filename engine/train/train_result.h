// The result of a run. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/numeric/quality.h"
#include "swap/plan/plan_residency.h"

namespace spillway {

struct TrainResult {
  // How it ended: at the last step; by a signal (or --max-bytes-written) after a commit, possibly
  // before the evaluation of the last step; or it had been finished already.
  enum class End { kFinished, kStopped, kAlreadyFinished };
  End end = End::kFinished;
  int64_t step = 0;
  std::optional<double> first_loss;  // of this process's steps
  std::optional<double> last_loss;
  std::optional<double> first_evaluation_loss;
  std::optional<double> evaluation_loss;
  std::vector<QualityMeasure> evaluation_quality;  // measured with that loss
  std::optional<double> best_evaluation;           // options.metric's, over the whole run
  int64_t best_evaluation_step = 0;
  int stop_signal = 0;             // 0: the limit of bytes written stopped it
  uint64_t run_written_bytes = 0;  // by all processes of the run
  std::string missed_copies;       // from CommitCopies::Missed

  uint64_t nvme_read_bytes = 0;
  uint64_t nvme_written_bytes = 0;
  uint64_t peak_device_bytes = 0;
  uint64_t peak_host_bytes = 0;
  uint64_t peak_rss_bytes = 0;
  double seconds = 0;
  std::string io_engine;
  // Where the plan puts the state.
  PlanResidency residency;
  int lookahead = 0;
  int kept_graphs = 0;  // units without recompute in the backward
  uint64_t host_arena_bytes = 0;

  // Predicted before the first step (none: no prediction), and the median of this process's steps
  // without the first, which runs no deferred update, if there are others.
  std::optional<double> predicted_seconds;
  std::string binding;  // resource that binds the predicted step: "disk", "compute", "update", ...
  // The prediction with the disk's rates observed in those steps.
  std::optional<double> predicted_at_observed_rates_seconds;
  double median_seconds = 0;
  std::string speed;  // the lines of StepSummary
};

}  // namespace spillway
