// From a model, options and what computing takes to the plan of a run, or to the smallest
// budgets that would do. `train` refuses with these numbers and `estimate` prints them.
// Pure functions of values; any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/model/model_description.h"
#include "engine/model/step_compute.h"
#include "engine/options/train_options.h"
#include "engine/ranks/collective_rates.h"
#include "engine/ranks/sharded_step.h"
#include "swap/plan/planner.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

// Immediate where no total over all gradients is needed. kInvalidArgument when `options` ask
// for immediate updates with clipping or fp16.
absl::StatusOr<UpdateMode> ChooseUpdate(const TrainOptions& options);

// What computing takes when the graphs of `graphs` are kept.
DryRun WithoutRecompute(DryRun recomputed, const GraphPlan& graphs);

struct RunPlanInput {
  uint64_t tile_parameters = 0;  // 0: the default
  bool copies = false;           // commits are copied (--persist)
  bool in_place = false;         // frozen weights are read in the model's files
  bool separate_device = false;  // what computes has memory of its own
  ComputeMemory memory = {};     // what the dry run found
  GraphCosts graphs = {};
  std::optional<StepClock> clock = std::nullopt;  // what the plan is timed with
};

struct RunPlan {
  UpdateMode update = UpdateMode::kImmediate;
  PlanRequest request;  // its budgets are what books and computing leave
  uint64_t device_limit_bytes = 0;
  uint64_t host_limit_bytes = 0;
  // Of the device: what computing takes wherever activations are kept, and a margin.
  uint64_t compute_bytes = 0;
  // Likewise, with several ranks: units as a whole, gathered and on their way to be summed.
  uint64_t whole_bytes = 0;
  // Of the host: what the swap manager and the store note down, with what reading in place takes,
  // which is as little as can be where there is no more.
  uint64_t book_bytes = 0;
  uint64_t in_place_bytes = 0;
  uint64_t least_in_place_bytes = 0;
  std::optional<SwapPlan> swaps;  // none: it does not fit
  GraphPlan graphs;               // in what these leave of the device's memory
  // With several ranks what a step exchanges; then the layout and the schedule of `request` are
  // those of this rank's shards.
  std::optional<ShardedStep::Options> shards;
  StateLayout whole_layout;  // of all ranks together, padded for one

  uint64_t computing_bytes() const {
    return compute_bytes + graphs.bytes + (swaps ? swaps->device_activation_bytes : 0);
  }
};

// Gives `clock` what operations take: compute with the graphs that `run` keeps, and with several
// ranks what they exchange at `rates`, which one rank has none of. REQUIRES: run.swaps.
void TimeOperations(const RunPlan& run, const DryRun& recomputed, const CollectiveRates& rates,
                    StepClock& clock);

// kInvalidArgument when choices contradict each other. A run that does not fit is no error.
// REQUIRES: both budgets of `options` are set.
absl::StatusOr<RunPlan> PlanRun(const ModelDescription& model, const TrainOptions& options,
                                const RunPlanInput& input);

// The smallest values of --host-memory and --device-memory, to the byte.
struct RunMinimums {
  // Each at the given value of the other; none where no value of this one would help.
  std::optional<uint64_t> host_bytes;
  std::optional<uint64_t> device_bytes;
  // The pair that takes the least memory of both together.
  BudgetPair pair;
};
RunMinimums SmallestRunBudgets(const RunPlan& plan);

// The refusal, which ends the program with exit code 3. `measured`: what computing takes is, and so
// the budgets it names are exact. REQUIRES: !plan.swaps.
absl::Status RefusalOf(const RunPlan& plan, bool measured = true);

// kOk where the memory that the plan takes can be there at all, of a machine (or this rank's part
// of it) with so many bytes; otherwise an error that ends in exit code 3. REQUIRES: plan.swaps.
absl::Status CheckMachineMemory(const RunPlan& plan, bool separate_device, uint64_t machine_bytes);

}  // namespace spillway
