// Which updates the plan streams through a device with memory of its own.
#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "swap/forecast/step_simulation.h"
#include "swap/plan/phase_traffic.h"
#include "tests/swap/plan/gpt_like.h"
#include "tests/swap/plan/plan_checks.h"

namespace spillway {
namespace {

PlanRequest StreamedRequest(UpdateMode update, TierChoice tier, std::optional<double> share) {
  PlanRequest request = GptLikeRequest(update, tier, 12, 700 * 2048);
  request.separate_device = true;
  request.device_update_share = share;
  request.device_bytes = SmallestBudgets(request)->front().device_bytes + (64 << 20);
  return request;
}

int64_t Streamed(const SwapPlan& plan) {
  return std::count(plan.streams_update.begin(), plan.streams_update.end(), true);
}

double ShareOf(const SwapPlan& plan) {
  double bytes = 0;
  for (int unit = 0; unit < plan.layout.num_units(); ++unit) {
    if (plan.streams_update[unit]) bytes += plan.layout.PaddedParameters(unit);
  }
  return bytes / plan.layout.TotalPaddedParameters();
}

TEST(StreamedPlan, TheShareIsThatOfBytesEvenlySpread) {
  for (TierChoice tier : {TierChoice::kHost, TierChoice::kNvme}) {
    for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      const SwapPlan plan = PlanOf(StreamedRequest(UpdateMode::kDeferred, tier, share));
      // To half of the largest unit.
      EXPECT_NEAR(ShareOf(plan), share, 0.5 / 13) << share;
      EXPECT_EQ(plan.device_tile_spans.size(), share > 0 ? 4u : 0u);
      CheckAddresses(plan);
      if (share != 0.5) continue;
      for (int unit = 2; unit < 12; ++unit) {
        EXPECT_NE(plan.streams_update[unit], plan.streams_update[unit - 1]) << unit;
      }
    }
    EXPECT_EQ(Streamed(PlanOf(StreamedRequest(UpdateMode::kDeferred, tier, std::nullopt))), 0);
  }
}

// There, nothing has to be streamed; and where compute uses the host's memory there is no other.
TEST(StreamedPlan, WhatLivesOnTheDeviceIsNotStreamed) {
  PlanRequest request = StreamedRequest(UpdateMode::kDeferred, TierChoice::kDevice, 1.0);
  EXPECT_EQ(Streamed(PlanOf(request)), 0);
  EXPECT_THAT(PlanOf(request).Summary(), testing::HasSubstr("\n             on the device\n"));
  request.weights = request.optimizer = TierChoice::kHost;
  request.separate_device = false;
  EXPECT_EQ(Streamed(PlanOf(request)), 0);
}

TEST(StreamedPlan, WithoutMemoryForTwoTilesThereIsNone) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    for (TierChoice tier : {TierChoice::kHost, TierChoice::kNvme}) {
      PlanRequest request = StreamedRequest(update, tier, 1.0);
      const uint64_t least = SmallestBudgets(request)->front().device_bytes;
      uint64_t tile = request.layout.MaxTileBytes();
      if (update == UpdateMode::kDeferred) tile += request.layout.MaxGradientTileBytes();
      request.device_bytes = least + 2 * tile - 1;
      EXPECT_EQ(Streamed(PlanOf(request)), 0);
      EXPECT_THAT(PlanOf(request).Summary(), testing::HasSubstr("on the host\n"));
      request.device_bytes = least + 2 * tile;
      EXPECT_EQ(Streamed(PlanOf(request)), 14);
      EXPECT_EQ(PlanOf(request).device_tile_spans.size(), 2u);
      EXPECT_THAT(PlanOf(request).Summary(),
                  testing::HasSubstr("14 of 14 units through the device, 2 tiles at once\n"));
    }
  }
}

// An update that stays on the device brings its gradient nowhere, and its weights only back.
TEST(StreamedPlan, TrafficIsWhatTheTilesAre) {
  for (TierChoice tier : {TierChoice::kHost, TierChoice::kNvme}) {
    const SwapPlan host = PlanOf(StreamedRequest(UpdateMode::kDeferred, tier, 0));
    const SwapPlan device = PlanOf(StreamedRequest(UpdateMode::kDeferred, tier, 1));
    const uint64_t parameters = host.layout.TotalPaddedParameters();
    // All planes and the gradient, instead of a forward's weights, which come from the tile.
    EXPECT_EQ(device.traffic.to_device_bytes, host.traffic.to_device_bytes + 12 * parameters);
    EXPECT_EQ(device.traffic.to_host_bytes, host.traffic.to_host_bytes + 12 * parameters);
    const SwapPlan at_once = PlanOf(StreamedRequest(UpdateMode::kImmediate, tier, 1));
    EXPECT_EQ(at_once.traffic.to_host_bytes, 12 * parameters);
  }
}

TEST(StreamedPlan, PhasesMakeUpTheWhole) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    const UpdateMode update = random() % 2 ? UpdateMode::kImmediate : UpdateMode::kDeferred;
    constexpr TierChoice kTiers[] = {TierChoice::kHost, TierChoice::kNvme, TierChoice::kAuto};
    PlanRequest request = StreamedRequest(update, kTiers[random() % 3], (random() % 5) / 4.0);
    if (random() % 4 == 0) request.weights = TierChoice::kDevice;
    request.deferred_share = (random() % 3) / 2.0;
    const BudgetPair least = SmallestBudgets(request)->front();
    request.host_bytes = least.host_bytes + random() % (64 << 20);
    request.device_bytes = least.device_bytes + random() % (16 << 20);
    const SwapPlan plan = PlanOf(request);
    CheckAddresses(plan);
    PhaseTraffic total;
    for (const PhaseTraffic& phase : TrafficByPhase(plan)) {
      total.to_device_bytes += phase.to_device_bytes;
      total.to_host_bytes += phase.to_host_bytes;
      total.read_bytes += phase.read_bytes;
      total.written_bytes += phase.written_bytes;
    }
    EXPECT_EQ(total.read_bytes, plan.traffic.read_bytes) << "seed " << seed;
    EXPECT_EQ(total.written_bytes, plan.traffic.written_bytes) << "seed " << seed;
    EXPECT_EQ(total.to_device_bytes, plan.traffic.to_device_bytes) << "seed " << seed;
    EXPECT_EQ(total.to_host_bytes, plan.traffic.to_host_bytes) << "seed " << seed;
  }
}

// The link and the workers side by side take less time than either alone.
TEST(StreamedPlan, TheClockSharesTheUpdateWhereNeitherIsMuchFaster) {
  PlanRequest request = StreamedRequest(UpdateMode::kDeferred, TierChoice::kHost, std::nullopt);
  StepClock clock;
  clock.op_seconds.assign(request.schedule.ops.size(), 1e-6);
  clock.link = {1e10, 1e10};
  clock.device_update_bytes_per_second = 1e12;
  clock.update_bytes_per_second = 1.5e10;
  request.clock = clock;
  const SwapPlan plan = PlanOf(request);
  EXPECT_GT(Streamed(plan), 2);
  EXPECT_LT(Streamed(plan), 12);
  const double seconds = SimulateStep(plan, clock).seconds;
  for (const double share : {0.0, 1.0}) {
    request.device_update_share = share;
    EXPECT_GT(SimulateStep(PlanOf(request), clock).seconds, 1.1 * seconds) << share;
  }
}

// What is slow has the least to do.
TEST(StreamedPlan, TheClockGivesTheUpdateToWhoeverIsFaster) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    PlanRequest request = StreamedRequest(update, TierChoice::kHost, std::nullopt);
    StepClock clock;
    clock.op_seconds.assign(request.schedule.ops.size(), 1e-3);
    clock.link = {5e10, 5e10};
    clock.device_update_bytes_per_second = 1e12;
    clock.update_bytes_per_second = 1e9;
    request.clock = clock;
    EXPECT_EQ(Streamed(PlanOf(request)), 14);
    request.clock->update_bytes_per_second = 1e11;
    request.clock->link = {1e9, 1e9};
    EXPECT_EQ(Streamed(PlanOf(request)), 0);
    // Where it is close, no share of those that are tried is better.
    request.clock->update_bytes_per_second = 8e9;
    request.clock->link = {4e9, 4e9};
    const double seconds = SimulateStep(PlanOf(request), *request.clock).seconds;
    for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      request.device_update_share = share;
      const double other = SimulateStep(PlanOf(request), *request.clock).seconds;
      EXPECT_LE(0.99 * seconds, other) << share;  // less does not count
    }
  }
}

}  // namespace
}  // namespace spillway
