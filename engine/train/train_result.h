// The result of a training run. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/numeric/quality.h"
#include "swap/plan/plan_residency.h"

namespace spillway {

struct TrainResult {
  // End of the run: the last step; a signal or --max-bytes-written, after a commit, possibly before
  // the evaluation of the last step; or it had already finished before.
  enum class End { kFinished, kStopped, kAlreadyFinished };
  End end = End::kFinished;
  int64_t step = 0;
  std::optional<double> first_loss;  // of the steps of this process
  std::optional<double> last_loss;
  std::optional<double> first_evaluation_loss;
  std::optional<double> evaluation_loss;
  std::vector<QualityMeasure> evaluation_quality;  // other measures of that evaluation
  std::optional<double> best_evaluation;           // best options.metric of the whole run
  int64_t best_evaluation_step = 0;
  int stop_signal = 0;             // signal that stopped the run; 0: the limit of written bytes
  uint64_t run_written_bytes = 0;  // by all processes of the run
  std::string missed_copies;       // CommitCopies::Missed

  uint64_t nvme_read_bytes = 0;
  uint64_t nvme_written_bytes = 0;
  uint64_t peak_device_bytes = 0;
  uint64_t peak_host_bytes = 0;
  uint64_t peak_rss_bytes = 0;
  double seconds = 0;
  std::string io_engine;
  // Decisions of the plan.
  PlanResidency residency;
  int lookahead = 0;
  int kept_graphs = 0;  // units without recompute
  uint64_t host_arena_bytes = 0;

  // Step time predicted before the first step (none: no forecast), and median step of this process;
  // the first step has no deferred update and is excluded if there are others.
  std::optional<double> predicted_seconds;
  std::string binding;  // resource that limits the predicted step: "disk", "compute", "update", ...
  // The prediction recomputed with the disk's rates observed in those steps.
  std::optional<double> predicted_at_observed_rates_seconds;
  double median_seconds = 0;
  std::string speed;  // lines of StepSummary
};

}  // namespace spillway
