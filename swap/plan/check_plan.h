// The invariants of a plan and of a request for one, as checks. The mover relies on those of the
// plan and does not check them again.
#pragma once

#include "swap/plan/plan_request.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

// Aborts, naming the invariant, unless
//   - every plane of every unit lives in exactly one place, and its home has room for all of it;
//   - every weight, gradient sum and spilled input that an operation uses has an address during
//     that operation, and a spilled input is written before it is read again;
//   - buffers that are in use during the same operation, of this step or the next, share no
//     address, but for weights that one step's update hands over to the next step in place;
//   - everything lies inside the arenas, at multiples of 4096.
// PlanSwaps checks every plan that it returns. Takes time like the number of buffers times the
// operations that each one lives for.
void CheckPlan(const SwapPlan& plan);

// Aborts unless the request's schedule names only units of its layout, sorted and distinct, and its
// lists have an entry for each unit or are empty.
void CheckRequest(const PlanRequest& request);

}  // namespace spillway
