// What the compute thread asks the other ranks between operations. Each answer is the same on
// every rank, and is the own number where there is one rank.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/train/run_context.h"
#include "engine/train/run_setup.h"
#include "engine/train/step_meter.h"

namespace spillway {

// What ends a run before its last step.
struct StopReason {
  int signal = 0;  // 0: none; a limit (--max-bytes-written) where there is a rank
  int rank = -1;   // whose it is; this one where it has any. -1: nothing ends the run
};

class RankTotals {
 public:
  // In place of a signal's number: the limit is reached.
  static constexpr int64_t kAtLimit = -1;

  // All outlive it.
  RankTotals(const RunContext* context, const RunSetup* setup, StepMeter* meter)
      : context_(*context), setup_(*setup), meter_(*meter) {}

  // Tells `compute` the labels of all ranks in the step that begins, or the evaluation that ends.
  // Returns their tokens (StepCompute::token_count).
  absl::StatusOr<int64_t> ShareCounts();
  // How good the predictions of all ranks' evaluations are, or the texts that they made.
  absl::StatusOr<std::vector<QualityMeasure>> Quality(double loss);
  // What the update of the step that ends needs to know of all tensors, in all ranks' shards
  // (StepSchedule::measures); nothing of other optimizers, or where it is skipped.
  // `sum_of_squares`: of all ranks' gradients.
  absl::Status MeasureUpdate(const UpdateScalars& scalars, double sum_of_squares);
  // The sum of all ranks' losses over so many labels. Not a number (null in JSON) where there are
  // none: the windows lay within prompts.
  absl::StatusOr<double> MeanLoss(int64_t labels);
  // Whether a signal or a limit has reached any of them. `own`: a signal's number, kAtLimit, or 0.
  // `commit`: whether a commit is due by this rank's clock; the first one's goes for all.
  absl::StatusOr<bool> AnyStops(int64_t own, bool* commit = nullptr);
  // What AnyStops has found last.
  const StopReason& stop_reason() const { return stop_reason_; }
  // Whether any of them has more texts to make.
  absl::StatusOr<bool> AnyMakesTexts(bool own);
  absl::StatusOr<int64_t> Sum(int64_t own);
  // The smallest of all ranks' numbers, or the first rank's.
  absl::StatusOr<int64_t> Least(int64_t own);
  absl::StatusOr<int64_t> OfFirstRank(int64_t own);
  // The first rank's buffers are everybody's from now on.
  absl::Status ShareBuffers();

 private:
  // What `ask` answers, whose time is counted.
  template <typename Ask>
  auto Agreed(Ask ask);
  absl::StatusOr<std::vector<int64_t>> Counts(int64_t own);
  absl::Status Measure(const UpdateScalars& scalars, int measure);
  // The numbers of every shard, in their order.
  absl::StatusOr<std::vector<double>> OfAllShards(std::vector<double> own);
  // `sums` becomes the sum of all shards'.
  absl::Status AddShards(absl::Span<double> sums);

  const RunContext& context_;
  const RunSetup& setup_;
  StepMeter& meter_;
  StopReason stop_reason_;
};

}  // namespace spillway
