// How much of the state is on its way at once: look-ahead and tile buffers, from the deepest that a
// plan may have to the least.
#pragma once

#include <vector>

#include "swap/plan/plan_request.h"

namespace spillway {

struct DepthLevel {
  int lookahead, tail, tile_buffers;
};

// Tiles that must be under way for the disk to be as fast as the request's clock says, by its
// bandwidth and the time that one takes; 0 without a clock.
double TilesUnderWay(const PlanRequest& request);

class DepthLevels {
 public:
  explicit DepthLevels(const PlanRequest& request);

  int size() const { return static_cast<int>(levels_.size()); }
  const DepthLevel& operator[](int level) const { return levels_[level]; }
  // The deepest that plans have without a clock. Before it are those that the clock's disks ask
  // for.
  int usual() const { return usual_; }
  // The clock chooses among those before this one, of deeper ones the deepest that fits, and below
  // only where none of them fits: it finds no better plans there.
  int chosen_end() const { return usual_ + kChosen - (usual_ > 0 ? 1 : 0); }

 private:
  static constexpr int kChosen = 5;

  std::vector<DepthLevel> levels_;
  int usual_ = 0;
};

}  // namespace spillway
