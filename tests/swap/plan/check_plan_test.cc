#include "swap/plan/check_plan.h"

#include <algorithm>
#include <functional>

#include "gtest/gtest.h"
#include "swap/plan/planner.h"
#include "tests/swap/plan/gpt_like.h"

namespace spillway {
namespace {

// A plan whose weights, moments and inputs are in the store.
SwapPlan StoredPlan(UpdateMode update = UpdateMode::kImmediate) {
  PlanRequest request = GptLikeRequest(update, TierChoice::kNvme, 6, 700000);
  AddInputs(request, TierChoice::kNvme);
  uint64_t smallest = 0;
  EXPECT_TRUE(PlanSwaps(request, &smallest).ok());
  request.host_bytes = smallest + 8000000;
  return *PlanSwaps(request);
}

void ExpectDeath(SwapPlan plan, const std::function<void(SwapPlan&)>& change,
                 const char* condition) {
  CheckPlan(plan);
  change(plan);
  EXPECT_DEATH(CheckPlan(plan), condition);
}

WeightStay& StayOf(SwapPlan& plan, int unit) {
  return *std::find_if(plan.weight_stays.begin(), plan.weight_stays.end(),
                       [&](const WeightStay& stay) { return stay.unit == unit; });
}

// Two stays that last over one operation.
std::pair<WeightStay*, GradientStay*> Together(SwapPlan& plan) {
  for (WeightStay& weights : plan.weight_stays) {
    for (GradientStay& sums : plan.gradient_stays) {
      if (weights.first_op <= sums.last_op && sums.first_op <= weights.last_op) {
        return {&weights, &sums};
      }
    }
  }
  return {};
}

TEST(CheckPlanDeathTest, BuffersInUseTogetherShareNoAddress) {
  ExpectDeath(
      StoredPlan(),
      [](SwapPlan& plan) {
        const auto [weights, sums] = Together(plan);
        weights->span.offset = sums->span.offset;
      },
      "handed_over \\|\\| !a.span->Overlaps");
  ExpectDeath(
      StoredPlan(), [](SwapPlan& plan) { StayOf(plan, 2).span.offset = plan.tile_spans[0].offset; },
      "lease.span->Overlaps");
  ExpectDeath(
      StoredPlan(), [](SwapPlan& plan) { plan.tile_spans[1] = plan.tile_spans[0]; },
      "fixed\\[i\\]->Overlaps");
}

// The lead of a step's first stays lies over the last operations of the step before.
TEST(CheckPlanDeathTest, ALeadMeetsTheStepBefore) {
  SwapPlan plan = StoredPlan();
  WeightStay& first = StayOf(plan, 1);
  ASSERT_EQ(first.first_op, 1);
  first.lead_ops = static_cast<int>(plan.schedule.ops.size());
  EXPECT_DEATH(CheckPlan(plan), "handed_over \\|\\| !a.span->Overlaps");
}

TEST(CheckPlanDeathTest, EverythingLiesInTheArenas) {
  ExpectDeath(
      StoredPlan(), [](SwapPlan& plan) { plan.host_arena_bytes -= 4096; }, "host_arena_bytes");
  ExpectDeath(
      StoredPlan(), [](SwapPlan& plan) { StayOf(plan, 2).span.offset += 64; }, "offset % 4096");
}

TEST(CheckPlanDeathTest, EveryUseHasAnAddress) {
  ExpectDeath(
      StoredPlan(), [](SwapPlan& plan) { plan.weight_stays.erase(plan.weight_stays.begin() + 3); },
      "StaysAt\\(weights, unit, op\\)");
  ExpectDeath(
      StoredPlan(), [](SwapPlan& plan) { plan.gradient_stays.pop_back(); },
      "StaysAt\\(gradients, unit, op\\)");
  ExpectDeath(
      StoredPlan(), [](SwapPlan& plan) { plan.activation_stays.pop_back(); },
      "StaysAt\\(inputs, step_op.unit, op\\)");
}

TEST(CheckPlanDeathTest, AnInputIsWrittenBeforeItIsRead) {
  ExpectDeath(
      StoredPlan(),
      [](SwapPlan& plan) {
        for (ActivationStay& stay : plan.activation_stays) {
          if (stay.loads) stay.lead_ops = static_cast<int>(plan.schedule.ops.size());
        }
      },
      "saved.last_op < loaded.first_op");
}

TEST(CheckPlanDeathTest, EveryPlaneLivesInOnePlace) {
  ExpectDeath(
      StoredPlan(), [](SwapPlan& plan) { plan.placements[2].optimizer = Tier::kHost; },
      "placement.InStore\\(plane\\)");
  PlanRequest request = GptLikeRequest(UpdateMode::kDeferred, TierChoice::kHost, 6, 700000);
  ExpectDeath(
      PlanOf(request), [](SwapPlan& plan) { plan.plane_homes[3][1].bytes -= 4096; },
      "home.bytes == ");
  ExpectDeath(
      PlanOf(request), [](SwapPlan& plan) { plan.gradient_homes[3].bytes = 0; },
      "gradient.bytes == ");
  ExpectDeath(
      StoredPlan(UpdateMode::kDeferred),
      [](SwapPlan& plan) { plan.spill_room.gradients[3] = !plan.spill_room.gradients[3]; },
      "spill_room.gradients");
}

TEST(CheckPlanDeathTest, AnUpdateTakesItsWeightsFromOneStay) {
  ExpectDeath(
      StoredPlan(), [](SwapPlan& plan) { plan.weight_at_hand[2] = !plan.weight_at_hand[2]; },
      "weight_at_hand\\[unit\\] == ");
}

// The search for plans knows nothing of these checks.
TEST(CheckPlan, HoldsForPlansOfEveryKind) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    for (TierChoice tier : {TierChoice::kAuto, TierChoice::kHost, TierChoice::kNvme}) {
      for (bool separate_device : {false, true}) {
        PlanRequest request = GptLikeRequest(update, tier, 6, 700000);
        request.separate_device = separate_device;
        request.device_update_share = separate_device ? 0.5 : 0;
        AddInputs(request, tier);
        uint64_t smallest = 0;
        ASSERT_TRUE(PlanSwaps(request, &smallest).ok());
        for (uint64_t extra : {0, 4000000, 30000000, 300000000}) {
          request.host_bytes = smallest + extra;
          CheckPlan(PlanOf(request));
        }
      }
    }
  }
}

}  // namespace
}  // namespace spillway
