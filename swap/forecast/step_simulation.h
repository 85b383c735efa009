// Simulates the time line of a plan before it runs: the mover itself (swap/mover) carries the plan
// out, on one thread, with a clock in place of the disk, the workers, the device and the compute
// thread. No byte is moved, and no memory of an arena is touched.
//
// Where a plan has many tiles, several are simulated as one larger tile, so that a plan of any size
// is timed in some milliseconds. As many bytes are read ahead and under way at once.
//
// With several ranks the plan's operations are exchanges with the other ranks (CollectiveClock),
// one after the other, beside the computations. The other ranks are assumed to be as fast as this
// one.
#pragma once

#include "absl/status/statusor.h"
#include "swap/plan/plan_request.h"
#include "swap/plan/step_clock.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

// The times of a step in the middle of a run, whose updates flow into the next step.
struct SimulatedStep {
  double seconds = 0;
  double forward_seconds = 0;     // up to the loss, with the waits of the forward
  double disk_seconds = 0;        // during which any transfer was under way
  double copy_seconds = 0;        // during which a copy to or from a separate device was
  double collective_seconds = 0;  // during which an exchange with other ranks was
  double stall_seconds = 0;       // during which compute waited
};

// REQUIRES: clock.op_seconds has one entry an op, or clock.collective has; rates are positive
// where the plan needs them.
SimulatedStep SimulateStep(const SwapPlan& plan, const StepClock& clock);

// Calls PlanSwaps with this simulation as its timer: where the request has a clock, the planner's
// choices are timed by it.
absl::StatusOr<SwapPlan> PlanByClock(const PlanRequest& request);

}  // namespace spillway
