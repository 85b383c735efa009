// Estimates what a run of a model needs: memory by kind and tier, the smallest budgets, traffic and
// wear of the drive; with several ranks, of one of them. Pure functions of values; docs/ESTIMATE.md
// has the formulas.
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
  ModelDescription model;  // the trained model, including adapters
  bool trainable = false;  // this build can train it
  TrainOptions options;    // with both budgets set
  StepShape step;          // per rank
  // Frozen weights of `options.dtype` that train would read in place, in the model's files.
  InPlaceUnits in_place;
  // Memory of the computation by dtype; may be measured for the run's own dtype.
  std::array<ComputeMemory, 3> memory = {};
  std::array<GraphCosts, 3> graphs;  // likewise
  bool measured = false;
  std::optional<StepClock> clock;   // the clock that times the plan, if known
  CollectiveRates collective;       // with several ranks, likewise
  bool collective_assumed = false;  // not measured
  double drive_bytes_per_day = 0;   // bytes that the drive's rating allows to be written
};

// All bytes of each kind in one dtype, in any tier; the state is a rank's share.
struct DTypeEstimate {
  DType dtype = DType::kFloat32;
  uint64_t weights_bytes = 0;
  uint64_t gradients_bytes = 0;
  uint64_t optimizer_bytes = 0;
  uint64_t activations_bytes = 0;
  uint64_t staging_bytes = 0;
  uint64_t whole_bytes = 0;  // with several ranks: whole units and their exchanges
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
  bool fits = false;                  // whether it fits the given budgets
  RunMinimums minimums;
  // The plan at the given budgets, or if they are too small at the smallest pair.
  RunPlan plan;
  std::array<TierBytes, 3> tiers;  // by Tier
  CollectiveTraffic collective;    // sent by a rank in a step
  uint64_t store_bytes = 0;        // size of files on the swap paths, or in OUTPUT for commits
  std::optional<StepForecast> forecast;  // for `plan`; filled in by the caller
};

// kInvalidArgument if options contradict each other.
absl::StatusOr<Estimate> MakeEstimate(const EstimateInput& input);

}  // namespace spillway
