#include "swap/plan/depth_levels.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "swap/plan/swap_plan.h"

namespace spillway {
namespace {

// Tiles wait for a read, a worker and a write in turn: 16 to 24 keep all three busy beside a drive.
// Without a tail a unit's update holds up the backward of the next one, which costs more than
// fetching its weights when they are needed.
constexpr DepthLevel kUsual[] = {{4, 2, 24}, {4, 2, 16}, {4, 2, 8}, {3, 2, 8}, {2, 2, 8},
                                 {2, 2, 6},  {2, 1, 8},  {2, 1, 4}, {1, 1, 8}, {1, 1, 3},
                                 {0, 1, 4},  {0, 1, 2},  {1, 0, 8}, {1, 0, 2}, {0, 0, 8}};

// How long a transfer of so many bytes is under way, beside as many others as a fast drive has at
// once.
double TransferSeconds(double bytes) {
  constexpr double kSeconds = 1e-4, kBytesPerSecond = 1e9;
  return kSeconds + bytes / kBytesPerSecond;
}

// Units whose weights must be on their way, so that one is there when it is needed: while its own
// come, others are needed one after the other.
double UnitsUnderWay(const PlanRequest& request) {
  const StepClock& clock = *request.clock;
  double seconds = 0;
  if (clock.collective) {
    for (const auto& computation : clock.collective->computations) seconds += computation.seconds;
  } else {
    seconds = std::accumulate(clock.op_seconds.begin(), clock.op_seconds.end(), 0.0);
  }
  const StateLayout& layout = request.layout;
  const double weight_bytes = static_cast<double>(layout.TotalPaddedParameters()) *
                              layout.planes()[0].bytes / layout.num_units();
  const double read_seconds = SecondsAt(clock.disk.read_bytes_per_second, weight_bytes);
  const double fetch_seconds =
      TransferSeconds(static_cast<double>(layout.MaxPlaneTileBytes(0))) + read_seconds;
  const double op_seconds = seconds / static_cast<double>(request.schedule.ops.size());
  return 1 + fetch_seconds / std::max({op_seconds, read_seconds, 1e-6});
}

}  // namespace

double TilesUnderWay(const PlanRequest& request) {
  if (!request.clock || request.clock->disk.mixed_bytes_per_second <= 0) return 0;
  const StepClock& clock = *request.clock;
  const double tile_bytes = static_cast<double>(request.layout.MaxTileBytes());
  const double moved = clock.disk.mixed_bytes_per_second * TransferSeconds(tile_bytes) / tile_bytes;
  return moved + 2 * clock.workers;  // each has one, and the next is there
}

DepthLevels::DepthLevels(const PlanRequest& request) {
  const DepthLevel& usual = kUsual[0];
  const double tiles_asked_for = TilesUnderWay(request);
  if (tiles_asked_for > usual.tile_buffers) {
    const int most_tiles = request.separate_device
                               ? std::min(request.max_tile_buffers, kMaxDeviceTiles)
                               : request.max_tile_buffers;
    int tiles = static_cast<int>(std::min<double>(std::ceil(tiles_asked_for), most_tiles));
    int lookahead = static_cast<int>(
        std::min<double>(std::ceil(UnitsUnderWay(request)), request.max_lookahead));
    // Memory may not do for all of that.
    for (; tiles > usual.tile_buffers; tiles /= 2, lookahead /= 2) {
      lookahead = std::max(lookahead, usual.lookahead);
      levels_.push_back({lookahead, lookahead / 2, tiles});
    }
  }
  usual_ = size();
  levels_.insert(levels_.end(), std::begin(kUsual), std::end(kUsual));
}

}  // namespace spillway
