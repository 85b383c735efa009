// Which operations of a step have a unit that is far larger than most, as the matrices of a
// vocabulary are, and how far the others are from them.
#pragma once

#include <vector>

#include "swap/plan/state_layout.h"
#include "swap/plan/step_schedule.h"

namespace spillway {

class LargeUnits {
 public:
  LargeUnits(const StateLayout& layout, const StepSchedule& schedule);

  bool any() const { return !since_.empty(); }
  // How many operations lie between `op` and the one with a large unit before it, and after it,
  // over the turn of two steps; 0 where it has one itself. REQUIRES: any().
  int Since(int op) const { return since_[op]; }
  int Until(int op) const { return until_[op]; }

 private:
  std::vector<int> since_, until_;  // [op]
};

}  // namespace spillway
