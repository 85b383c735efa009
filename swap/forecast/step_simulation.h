// A plan's time line before it runs: the mover itself (swap/mover) carries the plan out, on one
// thread, with a clock in place of the disk, the workers, the device and the compute thread. No
// byte is moved, and no memory of an arena is touched.
//
// Tiles that are many are taken together, so that a plan of any size is timed in some milliseconds:
// as much is read ahead and under way at once, in larger pieces.
//
// With several ranks the plan's operations are what they exchange (CollectiveClock): one after
// the other, beside what computes. The other ranks are taken to be as fast as this one.
#pragma once

#include "absl/status/statusor.h"
#include "swap/plan/plan_request.h"
#include "swap/plan/step_clock.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

// Of a step in the middle of a run, whose updates flow into the next.
struct SimulatedStep {
  double seconds = 0;
  double forward_seconds = 0;     // up to the loss, with what the forward had to wait for
  double disk_seconds = 0;        // that transfers were under way
  double copy_seconds = 0;        // that something was copied to or from a separate device
  double collective_seconds = 0;  // that something was exchanged with other ranks
  double stall_seconds = 0;       // that compute waited
};

// REQUIRES: clock.op_seconds has one entry an op, or clock.collective has; rates are positive
// where the plan needs them.
SimulatedStep SimulateStep(const SwapPlan& plan, const StepClock& clock);

// PlanSwaps, with the choices timed by the request's clock where it has one.
absl::StatusOr<SwapPlan> PlanByClock(const PlanRequest& request);

}  // namespace spillway
