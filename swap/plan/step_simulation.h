// A plan's time line before it runs: what the mover will do, with a clock in place of the
// disk, the workers and the compute thread. A pure function of values.
//
// The disk serves fetches before updates, and shares itself between fetches and an update that
// the forward waits for. Updates follow each other in their order, each as fast as disk and
// workers let it (those that are streamed through a separate device beside the others), and
// workers take their time from compute where cores are shared. A buffer
// waits until those that had its addresses before are released, as at run time.
//
// A separate device has a link that copies one thing after another each way, beside each other:
// weights go there from the host's memory, or from the store as they are read; an update's as it
// makes them. Gradients are rounded there and come to the host ahead of their update, and both
// take the time of that direction, as they share its stream. An operation first copies what it
// takes, or leaves, of inputs in the host's memory.
//
// With several ranks the plan's operations are what they exchange (CollectiveClock): one after
// the other, beside what computes. The other ranks are taken to be as fast as this one.
#pragma once

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

}  // namespace spillway
