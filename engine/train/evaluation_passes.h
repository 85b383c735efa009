// The passes of one evaluation over the weights: those of its loss, and of the texts that it makes.
// Compute thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/step_compute.h"
#include "engine/ranks/shard_grid.h"
#include "engine/report/metrics.h"
#include "engine/train/rank_totals.h"
#include "engine/train/trainer_rescue.h"

namespace spillway {

class EvaluationPasses {
 public:
  // `run`: the evaluation's operations once, over what has been loaded. All outlive it.
  EvaluationPasses(StepCompute* compute, RankTotals* totals, TrainerRescue* rescue,
                   const ShardGrid& grid, std::function<absl::Status()> run)
      : compute_(*compute), totals_(*totals), rescue_(*rescue), grid_(grid), run_(std::move(run)) {}

  // What all ranks have found together: tokens, loss and quality. kCancelled where any rank is to
  // stop, between two passes. `input_bytes`: of a training step's inputs, on the device.
  absl::StatusOr<EvaluationMetrics> Run(uint64_t input_bytes);

  // The samples that the first rank writes; the others', or where none are written, are none.
  // kCancelled as of Run. REQUIRES: after Run.
  absl::StatusOr<std::vector<SampleText>> WriteSamples();

 private:
  // Every rank takes as many passes as the one with the most to do, as each has a share of the
  // weights.
  absl::Status ComputeLoss();
  // After that. REQUIRES: the model makes texts.
  absl::Status MakeTexts();
  // One pass that computes what this rank has loaded, and the others theirs.
  absl::Status PassForTexts();
  // Takes part in the passes of ranks that still make texts.
  absl::Status AwaitTexts();
  EvaluationShare ShareOf(int rank) const {
    return EvaluationShareOf(compute_.evaluation_samples(), rank, grid_.size);
  }

  absl::Status CheckGoesOn();

  StepCompute& compute_;
  RankTotals& totals_;
  TrainerRescue& rescue_;
  const ShardGrid grid_;
  int64_t at_once_ = 0;  // samples that a pass takes, the same on all ranks
  const std::function<absl::Status()> run_;
};

}  // namespace spillway
