// Where a plan keeps units' inputs between their forwards and their backwards.
#include <algorithm>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "swap/plan/planner.h"
#include "swap/plan/swap_plan.h"
#include "tests/swap/plan/gpt_like.h"
#include "tests/swap/plan/plan_checks.h"

namespace spillway {
namespace {

constexpr int kLayers = 12;
constexpr uint64_t kInput = 1000000;                               // as it is computed with
constexpr uint64_t kKept = 1003520;                                // in whole pages
constexpr uint64_t kOnDevice = kKept + kKept / kActivationMargin;  // with an allocator's margin

// Every layer has an input; the embedding has data, and the head's backward is the loss's.
PlanRequest Request(TierChoice activations, bool storage = true, int layers = kLayers) {
  PlanRequest request =
      GptLikeRequest(UpdateMode::kDeferred, TierChoice::kHost, layers, 700000, storage);
  request.activations = activations;
  request.activation_bytes.assign(layers + 2, kInput);
  request.activation_bytes.front() = request.activation_bytes.back() = 0;
  request.input_in_flight_bytes = kKept;
  return request;
}

std::vector<int> UnitsIn(const SwapPlan& plan, Tier tier) {
  std::vector<int> units;
  for (int unit = 0; unit < plan.layout.num_units(); ++unit) {
    if (plan.activation_bytes[unit] > 0 && plan.activations[unit] == tier) units.push_back(unit);
  }
  return units;
}

int NumIn(const SwapPlan& plan, Tier tier) { return static_cast<int>(UnitsIn(plan, tier).size()); }

// The least host memory of a plan whose activations are all where `choice` says.
uint64_t LeastHostBytes(TierChoice choice) {
  return SmallestBudgets(Request(choice))->front().host_bytes;
}

TEST(ActivationPlan, TheDeviceKeepsAllThatFitAndOneByteLessSpillsTheFirstUnits) {
  PlanRequest request = Request(TierChoice::kAuto);
  request.device_bytes = kLayers * kOnDevice;
  const SwapPlan roomy = PlanOf(request);
  EXPECT_EQ(NumIn(roomy, Tier::kDevice), kLayers);
  EXPECT_EQ(roomy.device_bytes(), request.device_bytes);
  EXPECT_TRUE(roomy.activation_stays.empty());
  EXPECT_FALSE(roomy.any_nvme());
  --request.device_bytes;
  EXPECT_EQ(UnitsIn(PlanOf(request), Tier::kHost), std::vector<int>({1}));
}

TEST(ActivationPlan, LessOfTheDevicesMemorySpillsMoreAndTheLastUnitsLast) {
  PlanRequest request = Request(TierChoice::kAuto);
  for (int kept = kLayers; kept >= 0; --kept) {
    for (const uint64_t more : {kOnDevice - 1, uint64_t{0}}) {
      request.device_bytes = kept * kOnDevice + more;
      const SwapPlan plan = PlanOf(request);
      std::vector<int> last(kept);
      std::iota(last.begin(), last.end(), kLayers + 1 - kept);
      EXPECT_EQ(UnitsIn(plan, Tier::kDevice), last) << request.device_bytes;
      EXPECT_EQ(plan.device_bytes(), kept * kOnDevice);
    }
  }
}

TEST(ActivationPlan, WhatIsMovedIsOnTheDeviceWhileItIsComputedWith) {
  PlanRequest request = Request(TierChoice::kNvme);
  request.activation_bytes[5] = 2 * kKept;
  EXPECT_EQ(PlanOf(request).device_bytes(), kOnDevice);  // beyond what is in flight anyway
  request.input_in_flight_bytes = 2 * kKept;
  EXPECT_EQ(PlanOf(request).device_bytes(), 0u);
}

TEST(ActivationPlan, TheHostsMemoryTakesThemBeforeTheStore) {
  PlanRequest request = Request(TierChoice::kAuto);
  request.device_bytes = 0;
  const SwapPlan roomy = PlanOf(request);
  EXPECT_EQ(NumIn(roomy, Tier::kHost), kLayers);
  EXPECT_EQ(roomy.traffic.read_bytes + roomy.traffic.written_bytes, 0u);
  const uint64_t least = LeastHostBytes(TierChoice::kNvme);
  int both = 0;
  for (uint64_t host = least; host < roomy.host_arena_bytes; host += kKept / 2) {
    request.host_bytes = host;
    const SwapPlan plan = PlanOf(request);
    EXPECT_EQ(NumIn(plan, Tier::kDevice), 0);
    // What is in the store had no room.
    if (NumIn(plan, Tier::kNvme) > 0) {
      EXPECT_LT(host - plan.host_arena_bytes, kKept) << host;
    }
    both += NumIn(plan, Tier::kNvme) > 0 && NumIn(plan, Tier::kHost) > 0;
    // The store has room for those in memory too: another plan may spill them.
    const std::vector<uint64_t>& room = plan.spill_room.activation_bytes;
    EXPECT_EQ(std::accumulate(room.begin(), room.end(), uint64_t{0}), kLayers * kKept);
  }
  EXPECT_GT(both, kLayers);
}

TEST(ActivationPlan, NothingIsInAStoreThatIsNotThere) {
  PlanRequest request = Request(TierChoice::kAuto, false);
  request.device_bytes = 4 * kOnDevice;
  const SwapPlan plan = PlanOf(request);
  EXPECT_EQ(NumIn(plan, Tier::kDevice), 4);
  EXPECT_EQ(NumIn(plan, Tier::kHost), kLayers - 4);
  EXPECT_FALSE(plan.any_nvme());
  request.host_bytes = LeastHostBytes(TierChoice::kHost) - 9 * kKept;
  EXPECT_EQ(PlanSwaps(request).status().code(), absl::StatusCode::kResourceExhausted);
  request.activations = TierChoice::kNvme;
  const absl::Status refused = PlanSwaps(request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("--swap"));
}

TEST(ActivationPlan, WhatTheUserSaysIsDone) {
  for (const auto& [choice, tier] :
       {std::pair{TierChoice::kDevice, Tier::kDevice}, std::pair{TierChoice::kHost, Tier::kHost},
        std::pair{TierChoice::kNvme, Tier::kNvme}}) {
    PlanRequest request = Request(choice);
    const SwapPlan plan = PlanOf(request);
    EXPECT_EQ(NumIn(plan, tier), kLayers);
    EXPECT_EQ(plan.Residency().activations[static_cast<int>(tier)], kLayers * kKept);
    EXPECT_EQ(plan.any_nvme(), tier == Tier::kNvme);
    const uint64_t least = LeastHostBytes(choice);
    request.host_bytes = least;
    EXPECT_EQ(NumIn(PlanOf(request), tier), kLayers);
    request.host_bytes = least - 1;
    EXPECT_FALSE(PlanSwaps(request).ok());
  }
  PlanRequest request = Request(TierChoice::kDevice);
  request.device_bytes = kLayers * kOnDevice - 1;
  EXPECT_FALSE(PlanSwaps(request).ok());
}

TEST(ActivationPlan, AnEvaluationKeepsNone) {
  PlanRequest request = Request(TierChoice::kNvme);
  request.schedule = BuildEvaluateSchedule({std::vector<std::vector<int>>(kLayers + 2)});
  const SwapPlan plan = PlanOf(request);
  EXPECT_TRUE(plan.activation_stays.empty());
  EXPECT_EQ(plan.device_bytes(), 0u);
}

TEST(ActivationPlan, TrafficHasThemBothWays) {
  for (const TierChoice state : {TierChoice::kHost, TierChoice::kNvme}) {
    PlanRequest request = Request(TierChoice::kDevice);
    request.weights = request.optimizer = state;
    const StepTraffic kept = PlanOf(request).traffic;
    request.activations = TierChoice::kNvme;
    const SwapPlan spilled = PlanOf(request);
    EXPECT_EQ(spilled.traffic.read_bytes - kept.read_bytes, kLayers * kKept);
    EXPECT_EQ(spilled.traffic.written_bytes - kept.written_bytes, kLayers * kKept);
    EXPECT_THAT(spilled.Summary(),
                testing::HasSubstr("activations of 12 of 14 units: 11.48 MiB nvme"));
  }
}

// Sorted by op; each spilled unit's input is saved once, at its forward, and loaded once, after.
void CheckStays(const SwapPlan& plan) {
  std::vector<int> saves(plan.layout.num_units(), 0), loads = saves;
  int before = 0;
  for (const ActivationStay& stay : plan.activation_stays) {
    const StepOp& op = plan.schedule.ops[stay.first_op];
    ASSERT_GE(stay.first_op, before);
    before = stay.first_op;
    ASSERT_EQ(op.unit, stay.unit);
    ASSERT_EQ(op.kind, stay.loads ? OpKind::kBackward : OpKind::kForward);
    ASSERT_EQ(stay.span.bytes, plan.activation_bytes[stay.unit]);
    ++(stay.loads ? loads : saves)[stay.unit];
  }
  for (int unit = 0; unit < plan.layout.num_units(); ++unit) {
    const int stays = plan.activations[unit] == Tier::kNvme ? 1 : 0;
    ASSERT_EQ(saves[unit], stays);
    ASSERT_EQ(loads[unit], stays);
    ASSERT_EQ(plan.activation_homes[unit].bytes,
              plan.activations[unit] == Tier::kHost ? plan.activation_bytes[unit] : 0);
  }
}

PlanRequest RandomRequest(std::mt19937& random) {
  const auto any = [&] { return static_cast<TierChoice>(random() % 4); };
  const bool storage = random() % 3 > 0;
  const auto allowed = [&](TierChoice choice) {
    return !storage && choice == TierChoice::kNvme ? TierChoice::kAuto : choice;
  };
  const int layers = 1 + random() % 7;
  PlanRequest request = Request(allowed(any()), storage, layers);
  request.weights = allowed(any());
  request.optimizer = allowed(any());
  request.schedule.update = random() % 2 ? UpdateMode::kImmediate : UpdateMode::kDeferred;
  if (random() % 2) request.deferred_share = (random() % 5) / 4.0;
  for (int unit = 1; unit <= layers; ++unit) {
    request.activation_bytes[unit] = random() % 4 == 0 ? 0 : random() % 3000000;
  }
  request.input_in_flight_bytes = random() % 3000000;
  return request;
}

TEST(ActivationPlan, EveryBudgetIsKeptAndEveryPlanFoundThatTheSmallestBudgetsAllow) {
  std::mt19937 random(11);
  int planned = 0;
  for (int i = 0; i < 400; ++i) {
    PlanRequest request = RandomRequest(random);
    const auto pairs = SmallestBudgets(request);
    ASSERT_TRUE(pairs.ok()) << pairs.status();
    const BudgetPair& near = (*pairs)[random() % pairs->size()];
    // Exactly a smallest pair, one byte less of either, or a little more.
    const auto around = [&](uint64_t bytes) {
      return random() % 2 ? bytes + random() % 8000000
                          : bytes - std::min<uint64_t>(bytes, random() % 2);
    };
    request.host_bytes = around(near.host_bytes);
    request.device_bytes = around(near.device_bytes);
    SCOPED_TRACE(testing::Message() << "request " << i);
    const bool fits = std::any_of(pairs->begin(), pairs->end(), [&](const BudgetPair& pair) {
      return pair.host_bytes <= request.host_bytes && pair.device_bytes <= request.device_bytes;
    });
    const auto plan = PlanSwaps(request);
    ASSERT_EQ(plan.ok(), fits) << plan.status();
    if (!plan.ok()) continue;
    ++planned;
    EXPECT_LE(plan->host_arena_bytes, request.host_bytes);
    EXPECT_LE(plan->device_bytes(), request.device_bytes);
    CheckAddresses(*plan);
    CheckStays(*plan);
    ASSERT_FALSE(testing::Test::HasFatalFailure());
  }
  EXPECT_GT(planned, 150);
  EXPECT_LT(planned, 350);  // both are tried
}

}  // namespace
}  // namespace spillway
