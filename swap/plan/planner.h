// The planner: makes a plan from the layout of the state, the order of a step's accesses, the
// budgets and the user's choices. A pure function of values.
//
// Memory beyond the minimum is spent in this order: activations that stay on the device, look-ahead
// (weights are fetched some operations early), gradients that wait for the next forward, weights
// kept over the loss or over the turn between two steps, activations in the host's memory instead
// of the store, whole units that never touch storage, and tile buffers for the turn in memory that
// is idle then. With a clock each choice is timed, and the fastest is taken.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "swap/plan/plan_request.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

// The seconds that a step of a plan takes by a clock.
using StepTimer = std::function<double(const SwapPlan& plan, const StepClock& clock)>;

// Makes a plan, which passes CheckPlan. kResourceExhausted when no plan fits: the message has the
// smallest budgets that would do (as have `min_host_bytes` and `min_device_bytes` if not null).
// kInvalidArgument when a choice contradicts another (NVMe without a swap path).
// Without `timer` the request's clock is not used: PlanByClock (swap/forecast/step_simulation.h)
// passes one.
absl::StatusOr<SwapPlan> PlanSwaps(const PlanRequest& request, uint64_t* min_host_bytes = nullptr,
                                   uint64_t* min_device_bytes = nullptr,
                                   const StepTimer& timer = nullptr);

// The smallest budgets: PlanSwaps finds a plan if, and only if, both of the request's are
// at least those of one of these pairs. The request's own budgets do not matter. Several
// pairs where state may go to either tier: less of the host's memory, more of the device's.
// kInvalidArgument as from PlanSwaps.
absl::StatusOr<std::vector<BudgetPair>> SmallestBudgets(const PlanRequest& request);

}  // namespace spillway
