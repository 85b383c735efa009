// A plan's time line before it runs: what the mover will do, with a clock in place of the
// disk, the workers and the compute thread. A pure function of values.
//
// The disk serves fetches before updates, and shares itself between fetches and an update that
// the forward waits for. Updates follow each other in their order, each as fast as disk and
// workers let it, and workers take their time from compute where cores are shared. A buffer
// waits until those that had its addresses before are released, as at run time.
#pragma once

#include "swap/step_clock.h"
#include "swap/swap_plan.h"

namespace spillway {

// Of a step in the middle of a run, whose updates flow into the next.
struct SimulatedStep {
  double seconds = 0;
  double forward_seconds = 0;  // up to the loss, with what the forward had to wait for
  double disk_seconds = 0;     // that transfers were under way
  double stall_seconds = 0;    // that compute waited
};

// REQUIRES: clock.op_seconds has one entry an op, and rates are positive where the plan needs them.
SimulatedStep SimulateStep(const SwapPlan& plan, const StepClock& clock);

}  // namespace spillway
