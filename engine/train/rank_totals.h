// Agreements of the compute thread with other ranks between operations. Each result is the same on
// every rank, and is the own number if there is one rank.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/train/run_context.h"
#include "engine/train/run_setup.h"
#include "engine/train/step_meter.h"

namespace spillway {

// The reason why a run ends before its last step.
struct StopReason {
  int signal = 0;  // 0: none, or a limit (--max-bytes-written) if `rank` is set
  int rank = -1;   // the rank it came to, this one if possible; -1: the run goes on
};

class RankTotals {
 public:
  // Used in place of a signal's number: the limit is reached.
  static constexpr int64_t kAtLimit = -1;

  // All outlive the object.
  RankTotals(const RunContext* context, const RunSetup* setup, StepMeter* meter)
      : context_(*context), setup_(*setup), meter_(*meter) {}

  // Passes the number of all ranks' labels in the beginning step, or the ending evaluation, to
  // `compute`. Returns their tokens (StepCompute::token_count).
  absl::StatusOr<int64_t> ShareCounts();
  // Quality of the predictions or texts in all ranks' evaluations.
  absl::StatusOr<std::vector<QualityMeasure>> Quality(double loss);
  // Exchanges what the step's update needs of whole tensors, over all ranks' shards
  // (StepSchedule::measures); nothing for other optimizers, or if the update is skipped.
  // `sum_of_squares`: of all ranks' gradients.
  absl::Status MeasureUpdate(const UpdateScalars& scalars, double sum_of_squares);
  // Sum of all ranks' losses divided by `labels`. NaN (null in JSON) if there are none: the windows
  // were within prompts.
  absl::StatusOr<double> MeanLoss(int64_t labels);
  // Whether a signal or a limit has reached any rank. `own`: a signal's number, kAtLimit, or 0.
  // `commit`: whether a commit is due by this rank's clock; set to the first rank's answer.
  absl::StatusOr<bool> AnyStops(int64_t own, bool* commit = nullptr);
  // The reason found by the last AnyStops.
  const StopReason& stop_reason() const { return stop_reason_; }
  // Whether any rank has more texts to generate.
  absl::StatusOr<bool> AnyMakesTexts(bool own);
  absl::StatusOr<int64_t> Sum(int64_t own);
  // The smallest of all ranks' numbers, or the first rank's.
  absl::StatusOr<int64_t> Least(int64_t own);
  absl::StatusOr<int64_t> OfFirstRank(int64_t own);
  // Replaces all ranks' buffers by the first rank's.
  absl::Status ShareBuffers();

 private:
  // Returns the result of `ask`, and counts its time.
  template <typename Ask>
  auto Agreed(Ask ask);
  absl::StatusOr<std::vector<int64_t>> Counts(int64_t own);
  absl::Status Measure(const UpdateScalars& scalars, int measure);
  // The numbers of every shard, in order.
  absl::StatusOr<std::vector<double>> OfAllShards(std::vector<double> own);
  // Adds up `sums` over all shards.
  absl::Status AddShards(absl::Span<double> sums);

  const RunContext& context_;
  const RunSetup& setup_;
  StepMeter& meter_;
  StopReason stop_reason_;
};

}  // namespace spillway
