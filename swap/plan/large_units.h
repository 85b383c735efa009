// The distance of every operation of a step to the nearest one with a large unit: a unit that is
// far larger than most, as the matrices of a vocabulary are.
#pragma once

#include <vector>

#include "io/base/check.h"
#include "swap/plan/state_layout.h"
#include "swap/plan/step_schedule.h"

namespace spillway {

class LargeUnits {
 public:
  LargeUnits(const StateLayout& layout, const StepSchedule& schedule);

  bool any() const { return !since_.empty(); }
  // The distance in operations from `op` back to the last one with a large unit, and on to the next
  // one, across the turn between two steps; 0 where `op` has one itself. REQUIRES: any().
  int Since(int op) const {
    SPILLWAY_CHECK(any());
    return since_[op];
  }
  int Until(int op) const {
    SPILLWAY_CHECK(any());
    return until_[op];
  }

 private:
  std::vector<int> since_, until_;  // [op]
};

}  // namespace spillway
