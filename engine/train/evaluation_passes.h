// The passes of one evaluation over the weights: those of its loss, and of the texts that it makes.
// Compute thread.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "engine/plan/step_compute.h"
#include "engine/ranks/shard_grid.h"
#include "engine/train/rank_totals.h"
#include "engine/train/trainer_rescue.h"

namespace spillway {

class EvaluationPasses {
 public:
  // `run`: the evaluation's operations once, over what has been loaded. `at_once`: samples that a
  // pass takes, the same on all ranks. All outlive it.
  EvaluationPasses(StepCompute* compute, RankTotals* totals, TrainerRescue* rescue,
                   const ShardGrid& grid, int64_t at_once, std::function<absl::Status()> run)
      : compute_(*compute),
        totals_(*totals),
        rescue_(*rescue),
        grid_(grid),
        at_once_(at_once),
        run_(std::move(run)) {}

  // Both end with kCancelled where any rank is to stop, between two passes.
  //
  // Every rank takes as many passes as the one with the most to do, as each has a share of the
  // weights.
  absl::Status ComputeLoss();
  // After that. REQUIRES: the model makes texts.
  absl::Status MakeTexts();

 private:
  EvaluationShare ShareOf(int rank) const {
    return EvaluationShareOf(compute_.evaluation_samples(), rank, grid_.size);
  }

  absl::Status CheckGoesOn();

  StepCompute& compute_;
  RankTotals& totals_;
  TrainerRescue& rescue_;
  const ShardGrid grid_;
  const int64_t at_once_;
  const std::function<absl::Status()> run_;
};

}  // namespace spillway
