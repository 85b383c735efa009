// A step's simulation with several ranks: what they exchange is one line beside what computes.
#include <algorithm>
#include <functional>
#include <random>

#include "gtest/gtest.h"
#include "swap/forecast/step_simulation.h"
#include "tests/swap/plan/gpt_like.h"

namespace spillway {
namespace {

constexpr int kRankLayers = 6;
constexpr double kNoTime = 1e15;

// What one rank of several plans and how long it takes: gathers of the next operation's weights
// while one computes, sums of a complete gradient while the next one does.
struct RankStep {
  PlanRequest request;
  StepClock clock;
};

RankStep OneOfSeveral(UpdateMode update, TierChoice tier) {
  RankStep rank;
  rank.request = GptLikeRequest(update, tier, kRankLayers, 350 * 2048);
  rank.request.device_bytes = 0;
  const StepSchedule compute = rank.request.schedule;
  const int num_ops = static_cast<int>(compute.ops.size());
  std::vector<int> last_gradient(rank.request.layout.num_units(), -1);
  for (int op = 0; op < num_ops; ++op) {
    for (int unit : compute.ops[op].gradients) last_gradient[unit] = op;
  }
  CollectiveClock& clock = rank.clock.collective.emplace();
  std::vector<StepOp>& ops = rank.request.schedule.ops;
  ops.clear();
  bool backward = false;
  const auto add = [&](OpKind kind, int unit, int after) -> StepOp& {
    clock.after.push_back(after);
    clock.seconds.push_back(0);
    StepOp& op = ops.emplace_back();
    op.kind = kind;
    op.unit = unit;
    return op;
  };
  for (int op = 0; op < num_ops + 2; ++op) {
    const OpKind kind = backward ? OpKind::kBackward : OpKind::kForward;
    for (size_t unit = 0; unit < last_gradient.size(); ++unit) {
      if (last_gradient[unit] != op - 2) continue;
      add(kind, static_cast<int>(unit), op - 1).gradients = {static_cast<int>(unit)};
    }
    if (op >= num_ops) continue;
    for (int unit : compute.ops[op].weights) {
      add(kind, unit, std::max(0, op - 1)).weights = {unit};
    }
    clock.computations.push_back(
        {0, static_cast<int>(ops.size()), compute.ops[op].kind == OpKind::kForward});
    if (compute.ops[op].kind != OpKind::kLoss) continue;
    add(OpKind::kLoss, compute.ops[op].unit, std::max(1, op));
    backward = true;
  }
  rank.clock.disk = {kNoTime, kNoTime, kNoTime};
  rank.clock.update_bytes_per_second = kNoTime;
  return rank;
}

// Every exchange takes as long, and a backward three times a forward.
void SetSeconds(RankStep& rank, double exchange, double forward) {
  CollectiveClock& clock = *rank.clock.collective;
  for (size_t i = 0; i < clock.seconds.size(); ++i) {
    clock.seconds[i] = rank.request.schedule.ops[i].kind == OpKind::kLoss ? 0 : exchange;
  }
  for (auto& each : clock.computations) each.seconds = forward * (each.forward ? 1 : 3);
}

double Exchanged(const CollectiveClock& clock) {
  double sum = 0;
  for (double seconds : clock.seconds) sum += seconds;
  return sum;
}

double Computed(const CollectiveClock& clock) {
  double sum = 0;
  for (const auto& each : clock.computations) sum += each.seconds;
  return sum;
}

// Sums that nothing computes beside.
double LastSums(const CollectiveClock& clock) {
  double sum = 0;
  for (size_t i = 0; i < clock.seconds.size(); ++i) {
    if (clock.after[i] == static_cast<int>(clock.computations.size())) sum += clock.seconds[i];
  }
  return sum;
}

void ForEachKind(const std::function<void(UpdateMode update, TierChoice tier)>& test) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    for (TierChoice tier : {TierChoice::kHost, TierChoice::kNvme}) test(update, tier);
  }
}

TEST(StepSimulationOfRanks, SlowExchangesAreWhatAStepTakesAndWaitsFor) {
  ForEachKind([](UpdateMode update, TierChoice tier) {
    RankStep rank = OneOfSeveral(update, tier);
    SetSeconds(rank, 1, 1e-6);
    const SimulatedStep step = SimulateStep(PlanOf(rank.request), rank.clock);
    const double exchanged = Exchanged(*rank.clock.collective);
    EXPECT_NEAR(step.seconds, exchanged, 1e-3);
    EXPECT_NEAR(step.collective_seconds, exchanged, 1e-3);
    EXPECT_NEAR(step.stall_seconds, exchanged, 1e-3);
  });
}

// But for the first gather and the last sum, which have nothing beside them.
TEST(StepSimulationOfRanks, ExchangesBesideComputeTakeNoTime) {
  ForEachKind([](UpdateMode update, TierChoice tier) {
    RankStep rank = OneOfSeveral(update, tier);
    SetSeconds(rank, 0.25, 1);
    const SimulatedStep step = SimulateStep(PlanOf(rank.request), rank.clock);
    const CollectiveClock& clock = *rank.clock.collective;
    EXPECT_NEAR(step.seconds, Computed(clock) + 2 * 0.25, 1e-3);
    EXPECT_NEAR(step.stall_seconds, 2 * 0.25, 1e-3);
    EXPECT_NEAR(step.collective_seconds, Exchanged(clock), 1e-3);
    // Before the loss: the embedding's gather, then every forward.
    EXPECT_NEAR(step.forward_seconds, 0.25 + kRankLayers + 1, 1e-3);
  });
}

TEST(StepSimulationOfRanks, ShardsComeFromTheDiskAndAreUpdatedAsEver) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    RankStep rank = OneOfSeveral(update, TierChoice::kNvme);
    SetSeconds(rank, 1e-6, 1e-6);
    const SwapPlan plan = PlanOf(rank.request);
    rank.clock.disk = {1e9, 1e9, 1e9};
    const double moved = (plan.traffic.read_bytes + plan.traffic.written_bytes) / 1e9;
    EXPECT_NEAR(SimulateStep(plan, rank.clock).seconds, moved, 0.05 * moved);
    rank.clock.disk = {kNoTime, kNoTime, kNoTime};
    rank.clock.update_bytes_per_second = 1e9;
    const double touched = 32.0 * plan.layout.TotalPaddedParameters() / 1e9;
    EXPECT_NEAR(SimulateStep(plan, rank.clock).seconds, touched, 0.05 * touched);
  }
}

// Neither faster than either line nor slower than everything after another.
TEST(StepSimulationOfRanks, AStepIsBetweenItsBusiestLineAndAllOfThem) {
  std::mt19937 random(5);
  const auto upto = [&](double most) { return most * (random() / 4294967296.0); };
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    RankStep rank = OneOfSeveral(round % 2 ? UpdateMode::kDeferred : UpdateMode::kImmediate,
                                 round % 3 ? TierChoice::kNvme : TierChoice::kHost);
    CollectiveClock& clock = *rank.clock.collective;
    const double exchange = upto(2), forward = upto(1);
    for (double& seconds : clock.seconds) seconds = upto(exchange);
    for (auto& each : clock.computations) each.seconds = upto(forward);
    rank.clock.disk = {1e7 + upto(1e9), 1e7 + upto(1e9), 1e7 + upto(1e9)};
    rank.clock.update_bytes_per_second = 1e8 + upto(1e10);
    const SwapPlan plan = PlanOf(rank.request);
    const SimulatedStep step = SimulateStep(plan, rank.clock);
    const double disk =
        SecondsAt(rank.clock.disk.read_bytes_per_second, plan.traffic.read_bytes) +
        SecondsAt(rank.clock.disk.write_bytes_per_second, plan.traffic.written_bytes) +
        SecondsAt(rank.clock.disk.mixed_bytes_per_second,
                  plan.traffic.read_bytes + plan.traffic.written_bytes);
    const double update =
        32.0 * plan.layout.TotalPaddedParameters() / rank.clock.update_bytes_per_second;
    EXPECT_GE(step.seconds, Exchanged(clock) - 1e-6);
    EXPECT_GE(step.seconds, Computed(clock) + LastSums(clock) - 1e-6);
    EXPECT_LE(step.seconds, 1.02 * (Exchanged(clock) + Computed(clock) + disk + update));
    EXPECT_NEAR(step.collective_seconds, Exchanged(clock), 1e-6);
    EXPECT_NEAR(step.stall_seconds, step.seconds - Computed(clock), 1e-6);
  }
}

}  // namespace
}  // namespace spillway
