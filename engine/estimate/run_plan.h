// Makes the plan of a run from a model, options and the needs of its computation, or finds the
// smallest budgets that would suffice. `train` refuses with these numbers and `estimate` prints
// them. Pure functions of values; any thread.
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

// Immediate if no total over all gradients is needed. kInvalidArgument if `options` request
// immediate updates with clipping or fp16.
absl::StatusOr<UpdateMode> ChooseUpdate(const TrainOptions& options);

// The times and memory of `recomputed` if the graphs of `graphs` are kept.
DryRun WithoutRecompute(DryRun recomputed, const GraphPlan& graphs);

struct RunPlanInput {
  uint64_t tile_parameters = 0;  // 0: the default
  bool copies = false;           // commits are copied (--persist)
  bool in_place = false;         // frozen weights are read in the model's files
  bool separate_device = false;  // the device that computes has memory of its own
  ComputeMemory memory = {};     // measured by the dry run
  GraphCosts graphs = {};
  std::optional<StepClock> clock = std::nullopt;  // times the plan
};

struct RunPlan {
  UpdateMode update = UpdateMode::kImmediate;
  PlanRequest request;  // its budgets are the rest after tables and computation
  uint64_t device_limit_bytes = 0;
  uint64_t host_limit_bytes = 0;
  // Device memory for the computation, wherever activations are kept, with a margin.
  uint64_t compute_bytes = 0;
  // Device memory for whole units, with several ranks: gathered or about to be summed.
  uint64_t whole_bytes = 0;
  // Host memory for the tables of swap manager and store, including those for reading in place,
  // which take the minimum if memory is short.
  uint64_t book_bytes = 0;
  uint64_t in_place_bytes = 0;
  uint64_t least_in_place_bytes = 0;
  std::optional<SwapPlan> swaps;  // none: the run does not fit
  GraphPlan graphs;               // kept in the rest of the device's memory
  // With several ranks the exchanges of a step; the layout and the schedule of `request` are then
  // those of this rank's shards.
  std::optional<ShardedStep::Options> shards;
  StateLayout whole_layout;  // of all ranks together, padded for one

  uint64_t computing_bytes() const {
    return compute_bytes + graphs.bytes + (swaps ? swaps->device_activation_bytes : 0);
  }
};

// Sets the seconds of operations in `clock`: computation with the graphs that `run` keeps, and with
// several ranks the exchanges at `rates`, which one rank does not have. REQUIRES: run.swaps.
void TimeOperations(const RunPlan& run, const DryRun& recomputed, const CollectiveRates& rates,
                    StepClock& clock);

// kInvalidArgument if options contradict each other. A run that does not fit is not an error.
// REQUIRES: both budgets of `options` are set.
absl::StatusOr<RunPlan> PlanRun(const ModelDescription& model, const TrainOptions& options,
                                const RunPlanInput& input);

// The smallest values of --host-memory and --device-memory, to the byte.
struct RunMinimums {
  // Each one at the given value of the other; none if no value would suffice.
  std::optional<uint64_t> host_bytes;
  std::optional<uint64_t> device_bytes;
  // The pair with the smallest sum.
  BudgetPair pair;
};
RunMinimums SmallestRunBudgets(const RunPlan& plan);

// The refusal, which ends the program with exit code 3. `measured`: the memory of the computation
// is measured, so that the budgets in the message are exact. REQUIRES: !plan.swaps.
absl::Status RefusalOf(const RunPlan& plan, bool measured = true);

// OK if a machine (or this rank's part of it) with `machine_bytes` can provide the plan's memory;
// otherwise an error that ends in exit code 3. REQUIRES: plan.swaps.
absl::Status CheckMachineMemory(const RunPlan& plan, bool separate_device, uint64_t machine_bytes);

}  // namespace spillway
