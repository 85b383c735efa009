// The passes of one evaluation over the weights, for its loss and for its generated texts. Compute
// thread.
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
  // `run`: runs the evaluation's operations once on the loaded samples. All outlive the object.
  EvaluationPasses(StepCompute* compute, RankTotals* totals, TrainerRescue* rescue,
                   const ShardGrid& grid, std::function<absl::Status()> run)
      : compute_(*compute), totals_(*totals), rescue_(*rescue), grid_(grid), run_(std::move(run)) {}

  // The results of all ranks together: tokens, loss and quality. kCancelled if any rank is to stop,
  // between two passes. `input_bytes`: of a training step's inputs, on the device.
  absl::StatusOr<EvaluationMetrics> Run(uint64_t input_bytes);

  // The samples that the first rank writes; empty on the others, and if none are requested.
  // kCancelled as for Run. REQUIRES: Run has returned.
  absl::StatusOr<std::vector<SampleText>> WriteSamples();

 private:
  // Computes the loss. Every rank takes as many passes as the one with the most samples, as each
  // has a share of the weights.
  absl::Status ComputeLoss();
  // Generates the texts. REQUIRES: ComputeLoss was called, and the model generates text.
  absl::Status MakeTexts();
  // Runs one pass over what this rank has loaded; the others run theirs.
  absl::Status PassForTexts();
  // Takes part in the passes of ranks that still generate texts.
  absl::Status AwaitTexts();
  EvaluationShare ShareOf(int rank) const {
    return EvaluationShareOf(compute_.evaluation_samples(), rank, grid_.size);
  }

  absl::Status CheckGoesOn();

  StepCompute& compute_;
  RankTotals& totals_;
  TrainerRescue& rescue_;
  const ShardGrid grid_;
  int64_t at_once_ = 0;  // samples of a pass, the same on all ranks
  const std::function<absl::Status()> run_;
};

}  // namespace spillway
