// What a run of a model would take: memory by kind and tier, the smallest budgets, traffic
// and what the drive makes of it; of several ranks what one of them takes. Pure functions of
// values; docs/ESTIMATE.md has the formulas.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/estimate/model_costs.h"
#include "engine/estimate/run_plan.h"
#include "engine/estimate/step_forecast.h"
#include "engine/model/model_shape.h"
#include "engine/options/train_options.h"
#include "engine/ranks/collective_traffic.h"
#include "swap/store/in_place.h"

namespace spillway {

struct EstimateInput {
  ModelShape shape;
  ModelDescription model;  // what is trained of it, with adapters, if any
  bool trainable = false;  // by this build
  TrainOptions options;    // both budgets set
  StepShape step;          // of each rank
  // Frozen weights of `options.dtype` that train would read in the model's files.
  InPlaceUnits in_place;
  // Of computing, by dtype; of the run's own dtype measured or not.
  std::array<ComputeMemory, 3> memory = {};
  std::array<GraphCosts, 3> graphs;  // likewise
  bool measured = false;
  std::optional<StepClock> clock;   // what the plan is timed with, where it is known
  CollectiveRates collective;       // of several ranks, likewise
  bool collective_assumed = false;  // nobody has measured them
  double drive_bytes_per_day = 0;   // that a drive is rated to be written
};

// All bytes of one kind at one dtype, wherever they are: of state a rank's share.
struct DTypeEstimate {
  DType dtype = DType::kFloat32;
  uint64_t weights_bytes = 0;
  uint64_t gradients_bytes = 0;
  uint64_t optimizer_bytes = 0;
  uint64_t activations_bytes = 0;
  uint64_t staging_bytes = 0;
  uint64_t whole_bytes = 0;  // with several ranks: units as a whole, and what they exchange
  uint64_t largest_layer_bytes = 0;
  uint64_t total_bytes() const {
    return weights_bytes + gradients_bytes + optimizer_bytes + activations_bytes + staging_bytes +
           whole_bytes;
  }
};

struct TierBytes {
  uint64_t weights = 0, gradients = 0, optimizer = 0, activations = 0, staging = 0, whole = 0;
};

struct Estimate {
  EstimateInput input;
  std::vector<DTypeEstimate> dtypes;  // fp32, bf16, fp16
  bool fits = false;                  // in the given budgets
  RunMinimums minimums;
  // At the given budgets, or where they are too small at the smallest pair.
  RunPlan plan;
  std::array<TierBytes, 3> tiers;        // by Tier
  CollectiveTraffic collective;          // that a rank sends in a step
  uint64_t store_bytes = 0;              // of files on the swap paths, or in OUTPUT for commits
  std::optional<StepForecast> forecast;  // filled in by the caller, of `plan`
};

// kInvalidArgument for choices that contradict each other.
absl::StatusOr<Estimate> MakeEstimate(const EstimateInput& input);

}  // namespace spillway
