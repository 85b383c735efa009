// A step's simulation on a device with memory of its own: the link is a resource like the disk.
#include <algorithm>
#include <random>

#include "gtest/gtest.h"
#include "swap/forecast/step_simulation.h"
#include "swap/plan/phase_traffic.h"
#include "tests/swap/plan/gpt_like.h"

namespace spillway {
namespace {

constexpr double kFast = 1e15;

// `spare` bytes of device memory beyond the least.
PlanRequest OnDevice(UpdateMode update, TierChoice tier, uint64_t spare = 8 << 20) {
  PlanRequest request = GptLikeRequest(update, tier, 12, 700 * 2048);
  request.separate_device = true;
  request.device_bytes = SmallestBudgets(request)->front().device_bytes + spare;
  return request;
}

// Nothing takes long; a backward op three times as long as a forward's.
StepClock FastClock(const PlanRequest& request, double unit_seconds = 1e-6) {
  StepClock clock;
  clock.disk = {kFast, kFast, kFast};
  clock.link = {kFast, kFast};
  clock.update_bytes_per_second = clock.device_update_bytes_per_second = kFast;
  for (const StepOp& op : request.schedule.ops) {
    clock.op_seconds.push_back(unit_seconds * (op.kind == OpKind::kForward ? 1 : 3));
  }
  return clock;
}

PhaseTraffic TotalOf(const SwapPlan& plan) {
  PhaseTraffic total;
  for (const PhaseTraffic& phase : TrafficByPhase(plan)) {
    total.to_device_bytes += phase.to_device_bytes;
    total.to_host_bytes += phase.to_host_bytes;
    total.update_bytes += phase.update_bytes;
    total.device_update_bytes += phase.device_update_bytes;
  }
  return total;
}

void ExpectSlowResources(double share) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    for (TierChoice tier : {TierChoice::kHost, TierChoice::kNvme}) {
      PlanRequest request = OnDevice(update, tier, 64 << 20);
      request.device_update_share = share;
      const SwapPlan plan = PlanOf(request);
      const auto& streams = plan.streams_update;
      ASSERT_EQ(std::count(streams.begin(), streams.end(), true) > 0, share > 0);
      const PhaseTraffic total = TotalOf(plan);
      ASSERT_GT(plan.traffic.to_device_bytes, 0u);
      ASSERT_GT(plan.traffic.to_host_bytes, 0u);
      const auto expect = [&](const StepClock& clock, double taken, const char* slow) {
        SCOPED_TRACE(slow);
        const SimulatedStep step = SimulateStep(plan, clock);
        EXPECT_NEAR(step.seconds, taken, 0.05 * taken);
        EXPECT_NEAR(step.stall_seconds, taken, 0.05 * taken);
      };
      StepClock clock = FastClock(request);
      clock.link.to_device_bytes_per_second = 1e8;
      expect(clock, plan.traffic.to_device_bytes / 1e8, "to device");
      EXPECT_NEAR(SimulateStep(plan, clock).copy_seconds, plan.traffic.to_device_bytes / 1e8,
                  0.05 * plan.traffic.to_device_bytes / 1e8);
      clock = FastClock(request);
      clock.link.to_host_bytes_per_second = 1e8;
      expect(clock, plan.traffic.to_host_bytes / 1e8, "to host");
      clock = FastClock(request);
      clock.update_bytes_per_second = 1e9;
      if (total.update_bytes > 0) expect(clock, total.update_bytes / 1e9, "update");
      // Rounding takes the time of the stream that gradients come in.
      clock = FastClock(request);
      clock.device_update_bytes_per_second = 1e9;
      expect(clock, total.device_update_bytes / 1e9, "device");
      clock.link.to_host_bytes_per_second = 1e8;
      expect(clock, total.device_update_bytes / 1e9 + plan.traffic.to_host_bytes / 1e8,
             "device and to host");
      if (tier == TierChoice::kNvme) {
        clock = FastClock(request);
        clock.disk = {1e8, 1e8, 1e8};
        expect(clock, (plan.traffic.read_bytes + plan.traffic.written_bytes) / 1e8, "disk");
      }
      clock = FastClock(request, 1);
      const SimulatedStep step = SimulateStep(plan, clock);
      EXPECT_NEAR(step.seconds, Sum(clock.op_seconds), 0.01);
      EXPECT_NEAR(step.stall_seconds, 0, 0.01);
    }
  }
}

TEST(StepSimulationOnDevice, OneSlowResourceIsWhatAStepTakes) { ExpectSlowResources(0); }
TEST(StepSimulationOnDevice, OneSlowResourceIsWhatAStepOfStreamedUpdatesTakes) {
  for (double share : {0.5, 1.0}) ExpectSlowResources(share);
}

// Weights come from the store and go on to the device as they do; both directions of the link
// run beside each other.
TEST(StepSimulationOnDevice, DiskAndBothDirectionsOfTheLinkOverlap) {
  const PlanRequest request = OnDevice(UpdateMode::kDeferred, TierChoice::kNvme, 64 << 20);
  const SwapPlan plan = PlanOf(request);
  const double disk = plan.traffic.read_bytes + plan.traffic.written_bytes;
  StepClock clock = FastClock(request);
  clock.disk = {disk, disk, disk};  // a second each
  const double alone = SimulateStep(plan, clock).seconds;
  EXPECT_NEAR(alone, 1, 0.05);
  // A quarter of that, and a twentieth.
  clock.link = {4.0 * plan.traffic.to_device_bytes, 20.0 * plan.traffic.to_host_bytes};
  EXPECT_LT(SimulateStep(plan, clock).seconds, 1.1 * alone);
}

TEST(StepSimulationOnDevice, WithAllStateThereNothingIsCopiedAndTheDeviceUpdates) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    PlanRequest request = GptLikeRequest(update, TierChoice::kDevice, 12, 700 * 2048, false);
    request.separate_device = true;
    const SwapPlan plan = PlanOf(request);
    EXPECT_EQ(TotalOf(plan).update_bytes, 0u);
    // Rounding and update touch 32 bytes a parameter.
    const double touched = 32.0 * plan.layout.TotalPaddedParameters();
    EXPECT_EQ(TotalOf(plan).device_update_bytes, touched);
    StepClock clock = FastClock(request);
    clock.link = {};  // need not be known
    clock.update_bytes_per_second = 0;
    clock.device_update_bytes_per_second = touched;
    EXPECT_NEAR(SimulateStep(plan, clock).seconds, 1, 0.05);
  }
}

// By the operations themselves, which nothing can hide.
TEST(StepSimulationOnDevice, InputsInTheHostsMemoryTakeTheirTimeOfTheLink) {
  for (TierChoice choice : {TierChoice::kHost, TierChoice::kNvme}) {
    PlanRequest request = OnDevice(UpdateMode::kImmediate, TierChoice::kHost, 64 << 20);
    AddInputs(request, TierChoice::kDevice);
    const SwapPlan kept = PlanOf(request);
    request.activations = choice;
    const SwapPlan moved = PlanOf(request);
    EXPECT_EQ(TotalOf(moved).to_host_bytes, TotalOf(kept).to_host_bytes + 12 * kInputBytes);
    EXPECT_EQ(moved.traffic.to_host_bytes, kept.traffic.to_host_bytes + 12 * kInputBytes);
    StepClock clock = FastClock(request, 1);
    clock.link = {1e7, 5e6};
    const double longer = SimulateStep(moved, clock).seconds - SimulateStep(kept, clock).seconds;
    EXPECT_NEAR(longer, 12 * kInputBytes / 1e7 + 12 * kInputBytes / 5e6, 0.15 * longer);
  }
}

TEST(StepSimulationOnDevice, NoStepIsFasterThanAnyResource) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    PlanRequest request =
        OnDevice(random() % 2 ? UpdateMode::kImmediate : UpdateMode::kDeferred,
                 random() % 2 ? TierChoice::kNvme : TierChoice::kHost, random() % (64 << 20));
    if (random() % 2) AddInputs(request, random() % 2 ? TierChoice::kNvme : TierChoice::kHost);
    request.host_bytes = uint64_t{1} << 40;
    request.device_bytes += kInputBytes;
    const BudgetPair smallest = SmallestBudgets(request)->front();
    request.device_bytes = std::max(request.device_bytes, smallest.device_bytes);
    request.host_bytes = smallest.host_bytes + random() % 60000000;
    request.deferred_share = (random() % 5) / 4.0;
    request.device_update_share = (random() % 5) / 4.0;
    const SwapPlan plan = PlanOf(request);
    const auto rate = [&] { return 1e8 * (1 + random() % 100); };
    StepClock clock = FastClock(request, 0.001 * (1 + random() % 50));
    clock.disk = {rate(), rate(), rate()};
    clock.link = {rate(), rate()};
    clock.update_bytes_per_second = rate();
    clock.device_update_bytes_per_second = 10 * rate();
    const SimulatedStep step = SimulateStep(plan, clock);
    const PhaseTraffic total = TotalOf(plan);
    const double disk = clock.disk.Seconds(plan.traffic.read_bytes, plan.traffic.written_bytes);
    const double to_device = clock.link.SecondsToDevice(plan.traffic.to_device_bytes);
    const double to_host = clock.link.SecondsToHost(plan.traffic.to_host_bytes) +
                           total.device_update_bytes / clock.device_update_bytes_per_second;
    const double workers = total.update_bytes / clock.update_bytes_per_second;
    for (double least : {disk, to_device, to_host, workers, Sum(clock.op_seconds)}) {
      EXPECT_GE(step.seconds * 1.02, least);
    }
    EXPECT_LE(step.seconds, 1.02 * (disk + to_device + to_host + workers + Sum(clock.op_seconds)));
  }
}

// A deferred update's weights need not come back from the device, nor go there by themselves.
TEST(StepSimulationOnDevice, TheClockDefersUpdatesWhereTheLinkIsSlow) {
  PlanRequest request = OnDevice(UpdateMode::kImmediate, TierChoice::kNvme, 28 << 20);
  request.host_bytes = uint64_t{1} << 40;
  request.host_bytes = SmallestBudgets(request)->front().host_bytes + 48000000;
  const SwapPlan plain = PlanOf(request);
  StepClock clock = FastClock(request, 1);
  const double compute = Sum(clock.op_seconds);
  clock.link.to_device_bytes_per_second = 2 * plain.traffic.to_device_bytes / compute;
  clock.link.to_host_bytes_per_second = 0.75 * plain.traffic.to_host_bytes / compute;
  request.clock = clock;
  const SwapPlan chosen = PlanOf(request);
  EXPECT_GE(std::count(chosen.deferred.begin(), chosen.deferred.end(), true), 4);
  EXPECT_LT(chosen.traffic.to_host_bytes, plain.traffic.to_host_bytes);
  EXPECT_LT(SimulateStep(chosen, clock).seconds, 0.8 * SimulateStep(plain, clock).seconds);
  // A link that nobody waits for changes nothing.
  request.clock = FastClock(request, 1);
  const SwapPlan fast = PlanOf(request);
  EXPECT_EQ(fast.deferred, plain.deferred);
  EXPECT_EQ(fast.lookahead, plain.lookahead);
}

}  // namespace
}  // namespace spillway
