#include "swap/plan/swap_plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "swap/plan/stay_packing.h"
#include "tests/swap/mover/swap_run.h"
#include "tests/swap/plan/gpt_like.h"
#include "tests/swap/plan/plan_checks.h"

namespace spillway {
namespace {

PlanRequest GptOf(UpdateMode update, TierChoice tier, bool storage = true) {
  return GptLikeRequest(update, tier, 12, 700000, storage);
}

TEST(SwapPlan, BuffersAliveTogetherNeverShareAddresses) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    for (TierChoice tier : {TierChoice::kNvme, TierChoice::kAuto, TierChoice::kHost}) {
      PlanRequest request = GptOf(update, tier);
      uint64_t smallest = 0;
      ASSERT_TRUE(PlanSwaps(request, &smallest).ok());
      for (uint64_t extra = 0; extra < 40000000; extra += 2500000) {
        request.host_bytes = smallest + extra;
        request.device_bytes = 0;
        auto plan = PlanSwaps(request);
        ASSERT_TRUE(plan.ok()) << plan.status();
        EXPECT_LE(plan->host_arena_bytes, request.host_bytes);
        CheckAddresses(*plan);
      }
    }
  }
}

TEST(SwapPlan, OneByteBelowTheSmallestBudgetIsRefused) {
  PlanRequest request = GptOf(UpdateMode::kDeferred, TierChoice::kNvme);
  uint64_t smallest = 0;
  ASSERT_TRUE(PlanSwaps(request, &smallest).ok());
  request.host_bytes = smallest;
  EXPECT_TRUE(PlanSwaps(request).ok());
  request.host_bytes = smallest - 1;
  uint64_t reported = 0;
  auto plan = PlanSwaps(request, &reported);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(reported, smallest);
}

TEST(SwapPlan, MoreMemoryNeverMeansMoreTraffic) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    PlanRequest request = GptOf(update, TierChoice::kAuto);
    uint64_t smallest = 0;
    ASSERT_TRUE(PlanSwaps(request, &smallest).ok());
    request.device_bytes = 0;
    uint64_t before = UINT64_MAX;
    for (uint64_t extra = 0; extra < 220000000; extra += 10000000) {
      request.host_bytes = smallest + extra;
      const auto plan = PlanSwaps(request);
      ASSERT_TRUE(plan.ok());
      const uint64_t traffic = plan->traffic.read_bytes + plan->traffic.written_bytes;
      EXPECT_LE(traffic, before) << extra;
      before = traffic;
    }
    EXPECT_EQ(before, 0u);  // everything is cached in the end
  }
}

TEST(SwapPlan, EverythingOnNvmeMovesTheFloorOfBytes) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    const auto plan = PlanSwaps(GptOf(update, TierChoice::kNvme));
    ASSERT_TRUE(plan.ok());
    const double parameters = plan->layout.TotalPaddedParameters();
    // 2 in the backward, 12 in update and forward together; weights that the turns of the
    // step keep are read less often, the embedding's, for the head, once more.
    EXPECT_GE(plan->traffic.read_bytes / parameters, 13.0);
    EXPECT_LE(plan->traffic.read_bytes / parameters, 14.3);
    EXPECT_EQ(plan->traffic.written_bytes / parameters, 12.0);
  }
}

TEST(SwapPlan, NvmeWithoutASwapPathIsAnErrorThatNamesTheFlag) {
  const auto plan = PlanSwaps(GptOf(UpdateMode::kDeferred, TierChoice::kNvme, false));
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(plan.status().message()), testing::HasSubstr("--swap"));
}

TEST(SwapPlan, WithoutStorageStateOverflowsFromHostToDevice) {
  PlanRequest request = GptOf(UpdateMode::kImmediate, TierChoice::kAuto, false);
  request.host_bytes = 80 << 20;
  request.device_bytes = 90 << 20;
  const auto plan = PlanSwaps(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT(plan->device_arena_bytes, 0u);
  EXPECT_LE(plan->host_arena_bytes, request.host_bytes);
  EXPECT_EQ(plan->traffic.read_bytes, 0u);
}

TEST(SwapPlan, APlanIsFoundExactlyFromTheSmallestBudgetsOn) {
  for (bool storage : {true, false}) {
    for (TierChoice tier : {TierChoice::kAuto, TierChoice::kHost, TierChoice::kDevice}) {
      PlanRequest request = GptOf(UpdateMode::kDeferred, tier, storage);
      const auto pairs = SmallestBudgets(request);
      ASSERT_TRUE(pairs.ok()) << pairs.status();
      // All units in the host's memory, or the last so many on the device.
      EXPECT_EQ(pairs->size(), !storage && tier == TierChoice::kAuto ? 15u : 1u);
      for (const BudgetPair& pair : *pairs) {
        request.host_bytes = pair.host_bytes;
        request.device_bytes = pair.device_bytes;
        EXPECT_TRUE(PlanSwaps(request).ok());
        --request.host_bytes;
        EXPECT_FALSE(PlanSwaps(request).ok());
        request.host_bytes = pair.host_bytes;
        if (request.device_bytes == 0) continue;
        --request.device_bytes;
        EXPECT_FALSE(PlanSwaps(request).ok());
      }
    }
  }
}

TEST(StayPacking, LifetimesThatMeetAcrossTheTurnDoNotOverlap) {
  EXPECT_TRUE(LifetimesMeet({-2, 1}, {8, 9}, 10));
  EXPECT_FALSE(LifetimesMeet({-2, 1}, {5, 7}, 10));
  EXPECT_TRUE(LifetimesMeet({8, 12}, {0, 0}, 10));
  std::vector<PackedBuffer> buffers = {{{-2, 1}, 100}, {{8, 9}, 100}, {{3, 5}, 100}};
  EXPECT_EQ(PackBuffers(10, buffers), 2 * 4096u);
  EXPECT_NE(buffers[0].offset, buffers[1].offset);
}

}  // namespace
}  // namespace spillway
