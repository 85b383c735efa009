#include "engine/estimate/estimate.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "engine/model/packed_parameters.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

uint64_t LargestUnitBytes(const ModelDescription& model, uint32_t dtype_bytes) {
  uint64_t largest = 0;
  for (const UnitDescription& unit : model.units) {
    largest = std::max(largest, WeightBytes({{unit}}, dtype_bytes));
  }
  return largest;
}

// Host memory that is not state at rest: buffers and tables.
uint64_t StagingBytes(const RunPlan& plan) {
  SPILLWAY_CHECK(plan.swaps.has_value());
  uint64_t homes = 0;
  for (const auto& planes : plan.swaps->plane_homes) {
    for (const ArenaSpan& home : planes) homes += home.tier == Tier::kHost ? home.bytes : 0;
  }
  for (const ArenaSpan& home : plan.swaps->gradient_homes) {
    homes += home.tier == Tier::kHost ? home.bytes : 0;
  }
  for (const ArenaSpan& home : plan.swaps->activation_homes) homes += home.bytes;
  return plan.swaps->host_arena_bytes - homes + plan.book_bytes;
}

// The plan at the given budgets (`fits` is then true), or at the smallest pair.
absl::StatusOr<RunPlan> PlanFor(const EstimateInput& input, DType dtype, bool* fits,
                                RunMinimums* minimums) {
  TrainOptions options = input.options;
  options.dtype = dtype;
  // A run in another dtype would choose its own update mode.
  if (dtype != input.options.dtype) options.update = UpdateChoice::kAuto;
  RunPlanInput plan_input;
  plan_input.tile_parameters = options.tile_parameters;
  plan_input.copies = !options.persist.empty();
  plan_input.in_place = dtype == input.options.dtype && input.in_place.any();
  plan_input.separate_device = absl::StartsWith(options.device, "cuda");
  plan_input.memory = input.memory[static_cast<int>(dtype)];
  plan_input.graphs = input.graphs[static_cast<int>(dtype)];
  if (dtype == input.options.dtype) plan_input.clock = input.clock;
  const ModelDescription model = WithWordsOf(DTypeBytes(dtype), input.model);
  ASSIGN_OR_RETURN(RunPlan plan, PlanRun(model, options, plan_input));
  *fits = plan.swaps.has_value();
  *minimums = SmallestRunBudgets(plan);
  if (*fits) return plan;
  options.host_memory_bytes = minimums->pair.host_bytes;
  options.device_memory_bytes = minimums->pair.device_bytes;
  ASSIGN_OR_RETURN(RunPlan smallest, PlanRun(model, options, plan_input));
  SPILLWAY_CHECK(smallest.swaps.has_value());
  return smallest;
}

DTypeEstimate RowOf(const EstimateInput& input, DType dtype, const RunPlan& plan) {
  const uint64_t group = plan.shards ? plan.shards->grid.group : 1;
  const uint64_t trained = (input.model.trained_parameter_count() + group - 1) / group;
  const StateLayout& layout = plan.swaps->layout;
  DTypeEstimate row;
  row.dtype = dtype;
  row.weights_bytes = (WeightBytes(input.model, DTypeBytes(dtype)) + group - 1) / group;
  row.gradients_bytes = trained * layout.gradient_bytes_per_parameter();
  for (int plane = 1; plane < layout.num_planes(); ++plane) {
    row.optimizer_bytes += layout.planes()[plane].BytesOf(trained);
  }
  const PlanResidency residency = plan.swaps->Residency();
  row.activations_bytes = plan.computing_bytes() +
                          residency.activations[static_cast<int>(Tier::kHost)] +
                          residency.activations[static_cast<int>(Tier::kNvme)];
  row.staging_bytes = StagingBytes(plan);
  row.whole_bytes = plan.whole_bytes;
  row.largest_layer_bytes = LargestUnitBytes(input.model, DTypeBytes(dtype));
  return row;
}

std::array<TierBytes, 3> TiersOf(const RunPlan& plan) {
  const PlanResidency residency = plan.swaps->Residency();
  std::array<TierBytes, 3> tiers;
  for (int tier = 0; tier < 3; ++tier) {
    tiers[tier].weights = residency.weights[tier];
    tiers[tier].optimizer = residency.optimizer[tier];
    tiers[tier].gradients = residency.gradients[tier];
    tiers[tier].activations = residency.activations[tier];
  }
  tiers[static_cast<int>(Tier::kDevice)].activations = plan.computing_bytes();
  tiers[static_cast<int>(Tier::kDevice)].whole = plan.whole_bytes;
  tiers[static_cast<int>(Tier::kHost)].staging = StagingBytes(plan);
  return tiers;
}

// Files have every unit's state, twice with commits, and the spilled inputs.
uint64_t StoreBytes(const RunPlan& plan, const EstimateInput& input) {
  const bool no_commit = input.options.no_commit;
  if (no_commit && !plan.swaps->any_nvme()) return 0;
  StoreOptions store;
  store.two_slots = !no_commit;
  store.in_place = input.in_place;
  store.spill = plan.swaps->spill_room;
  return SwapStore::StorageBytes(plan.swaps->layout, store);
}

}  // namespace

absl::StatusOr<Estimate> MakeEstimate(const EstimateInput& input) {
  Estimate estimate;
  estimate.input = input;
  for (DType dtype : kDTypes) {
    bool fits = false;
    RunMinimums minimums;
    ASSIGN_OR_RETURN(RunPlan plan, PlanFor(input, dtype, &fits, &minimums));
    estimate.dtypes.push_back(RowOf(input, dtype, plan));
    if (dtype != input.options.dtype) continue;
    estimate.fits = fits;
    estimate.minimums = minimums;
    estimate.tiers = TiersOf(plan);
    if (plan.shards) {
      estimate.collective = CollectiveBytes(plan.shards->schedule, plan.shards->sums);
    }
    estimate.store_bytes = StoreBytes(plan, input);
    estimate.plan = std::move(plan);
  }
  return estimate;
}

}  // namespace spillway
