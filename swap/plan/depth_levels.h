// The levels of look-ahead and tile buffers, which bound how much state is on its way at once: from
// the deepest that a plan may have to the least.
#pragma once

#include <vector>

#include "io/base/check.h"
#include "swap/plan/plan_request.h"

namespace spillway {

struct DepthLevel {
  int lookahead, tail, tile_buffers;
};

// The number of tiles that must be under way for the disk to be as fast as the request's clock
// says: its bandwidth times the time that one transfer takes. 0 without a clock.
double TilesUnderWay(const PlanRequest& request);

class DepthLevels {
 public:
  explicit DepthLevels(const PlanRequest& request);

  int size() const { return static_cast<int>(levels_.size()); }
  const DepthLevel& operator[](int level) const {
    SPILLWAY_CHECK(level >= 0 && level < size());
    return levels_[level];
  }
  // The deepest level that plans have without a clock. Deeper levels, which come before it, exist
  // only where the clock's disks need them.
  int usual() const { return usual_; }
  // The end of the levels that are timed. Of the levels deeper than usual only the deepest that
  // fits is timed, and levels from here on only where none before fits: they have no faster plans.
  int chosen_end() const { return usual_ + kChosen - (usual_ > 0 ? 1 : 0); }

 private:
  static constexpr int kChosen = 5;

  std::vector<DepthLevel> levels_;
  int usual_ = 0;
};

}  // namespace spillway
