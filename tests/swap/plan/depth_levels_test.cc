#include "swap/plan/depth_levels.h"

#include "gtest/gtest.h"
#include "swap/forecast/step_simulation.h"
#include "tests/swap/plan/random_requests.h"

namespace spillway {
namespace {

// 24 layers of 7M parameters on NVMe, in tiles of 3 MiB, with memory for a third of the state.
PlanRequest LayersOnDisk(double disk_bytes_per_second, int workers, double forward_seconds) {
  PlanRequest request;
  std::vector<UnitLayout> units(26, {"layer", 7 << 20});
  request.layout = StateLayout(
      units,
      {{Plane::kWeight, 2}, {Plane::kResidual, 2}, {Plane::kExpAvg, 4}, {Plane::kExpAvgSq, 4}}, 2);
  request.schedule =
      BuildTrainSchedule({std::vector<std::vector<int>>(26)}, UpdateMode::kImmediate);
  request.weights = request.optimizer = TierChoice::kNvme;
  request.has_storage = true;
  request.host_bytes = request.device_bytes = request.layout.TotalPaddedParameters() * 20;
  StepClock clock;
  clock.disk = {disk_bytes_per_second, disk_bytes_per_second, disk_bytes_per_second};
  clock.workers = workers;
  clock.update_bytes_per_second = 1e10 * workers;
  clock.check_bytes_per_second = 1e10 * workers;
  for (const StepOp& op : request.schedule.ops) {
    clock.op_seconds.push_back(forward_seconds * (op.kind == OpKind::kForward ? 1 : 3));
  }
  request.clock = clock;
  return request;
}

TEST(DepthLevels, OneDriveAndTwoWorkersAskForNoMoreThanUsual) {
  for (const double forward_seconds : {1e-3, 0.05}) {
    const PlanRequest request = LayersOnDisk(3e9, 2, forward_seconds);
    const DepthLevels levels(request);
    EXPECT_EQ(levels.usual(), 0);
    EXPECT_EQ(levels[0].tile_buffers, 24);
    EXPECT_EQ(levels[0].lookahead, 4);
    const SwapPlan plan = *PlanByClock(request);
    EXPECT_LE(plan.tile_buffers, 24);
    EXPECT_LE(plan.forward_lookahead, 4);
  }
  PlanRequest untimed = LayersOnDisk(50e9, 16, 1e-3);
  untimed.clock.reset();
  EXPECT_EQ(DepthLevels(untimed).usual(), 0);
}

TEST(DepthLevels, EightDrivesGetTheTilesThatBandwidthTimesLatencyAndWorkersAskFor) {
  // 50 GB/s for 3.2 ms each, and 32 of the workers.
  PlanRequest request = LayersOnDisk(50e9, 16, 1e-3);
  EXPECT_NEAR(TilesUnderWay(request), 50e9 * 3.25e-3 / 3145728 + 32, 0.5);
  const DepthLevels levels(request);
  ASSERT_GE(levels.usual(), 1);
  EXPECT_GE(levels[0].tile_buffers, TilesUnderWay(request));
  EXPECT_EQ(levels[levels.usual()].tile_buffers, 24);
  const SwapPlan plan = *PlanByClock(request);
  EXPECT_EQ(plan.tile_buffers, levels[0].tile_buffers);
  EXPECT_LE(plan.host_arena_bytes, request.host_bytes);
  // Tiles that memory has no room for are not worth it.
  request.host_bytes = request.device_bytes = uint64_t{1} << 30;
  const SwapPlan small = *PlanByClock(request);
  EXPECT_LE(small.tile_buffers * request.layout.MaxTileBytes(), request.host_bytes / 8);
  // A device's own tiles are at most so many.
  request.separate_device = true;
  EXPECT_LE(DepthLevels(request)[0].tile_buffers, kMaxDeviceTiles);
}

TEST(DepthLevels, ShortOperationsAreLookedAheadOfForAsLongAsAFetchTakes) {
  const auto lookahead = [](double forward_seconds) {
    return DepthLevels(LayersOnDisk(50e9, 16, forward_seconds))[0].lookahead;
  };
  EXPECT_EQ(lookahead(0.05), 4);
  EXPECT_GT(lookahead(1e-4), 4);
  EXPECT_LE(lookahead(1e-7), 16);
  const PlanRequest request = LayersOnDisk(50e9, 16, 1e-4);
  EXPECT_GT(PlanByClock(request)->lookahead, 4);
}

TEST(DepthLevels, RequestsThatAskForNoMoreKeepTheirPlans) {
  RandomRequests requests(7);
  for (int i = 0; i < 200; ++i) {
    const PlanRequest request = requests.Draw();
    EXPECT_LE(TilesUnderWay(request), 24);
    EXPECT_EQ(DepthLevels(request).usual(), 0);
  }
}

}  // namespace
}  // namespace spillway
