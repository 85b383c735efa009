#include "swap/plan/phase_traffic.h"

#include "gtest/gtest.h"
#include "swap/plan/planner.h"
#include "tests/swap/mover/swap_training.h"

namespace spillway {
namespace {

constexpr uint64_t kEmbedding = 1 << 20, kLayer = 409600, kHead = 2048;  // all whole blocks

PlanRequest TrafficRequest(UpdateMode update, TierChoice weights, TierChoice optimizer) {
  PlanRequest request;
  request.layout = StateLayout(
      {{"embedding", kEmbedding},
       {"h.0", kLayer},
       {"h.1", kLayer},
       {"h.2", kLayer},
       {"head", kHead}},
      {{Plane::kWeight, 2}, {Plane::kResidual, 2}, {Plane::kExpAvg, 4}, {Plane::kExpAvgSq, 4}}, 2,
      65536);
  request.schedule = BuildTrainSchedule({{{}, {}, {}, {}, {0}}}, update);
  request.weights = weights;
  request.optimizer = optimizer;
  request.has_storage = true;
  request.host_bytes = request.device_bytes = uint64_t{1} << 40;
  return request;
}

std::array<PhaseTraffic, kPhases> Phases(const PlanRequest& request) {
  const auto plan = PlanSwaps(request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return TrafficByPhase(*plan);
}

constexpr uint64_t kModel = kEmbedding + 3 * kLayer + kHead;

TEST(PhaseTraffic, DeferredUpdatesReadAndWriteInTheForward) {
  PlanRequest request = TrafficRequest(UpdateMode::kDeferred, TierChoice::kNvme, TierChoice::kNvme);
  uint64_t smallest = 0;
  ASSERT_TRUE(PlanSwaps(request, &smallest).ok());
  request.host_bytes = smallest;  // nothing kept: gradients are spilled
  request.device_bytes = 0;
  const auto [forward, backward, flush] = Phases(request);
  EXPECT_EQ(forward.read_bytes, kModel * 14);
  EXPECT_EQ(forward.written_bytes, kModel * 12);
  EXPECT_EQ(forward.update_bytes, kModel * 26);
  // The head's weights are there from the forward's end on; the embedding's, which the
  // head borrows, are fetched for the loss and for their own backward.
  EXPECT_EQ(backward.read_bytes, 2 * (2 * kEmbedding + 3 * kLayer));
  EXPECT_EQ(backward.written_bytes, 2 * (kModel - kEmbedding));
  EXPECT_EQ(flush.written_bytes, 2 * kEmbedding);
  EXPECT_EQ(flush.read_bytes, 0u);
  // Only rounding.
  EXPECT_EQ(backward.update_bytes, 6 * (kModel - kEmbedding));
  EXPECT_EQ(flush.update_bytes, 6 * kEmbedding);
}

TEST(PhaseTraffic, ImmediateUpdatesRunInTheBackwardAndTheLastInTheFlush) {
  PlanRequest request =
      TrafficRequest(UpdateMode::kImmediate, TierChoice::kNvme, TierChoice::kNvme);
  uint64_t smallest = 0;
  ASSERT_TRUE(PlanSwaps(request, &smallest).ok());
  request.host_bytes = smallest;
  const auto [forward, backward, flush] = Phases(request);
  // The embedding's update leaves its new weights there.
  EXPECT_EQ(forward.read_bytes, 2 * 3 * kLayer);
  EXPECT_EQ(forward.written_bytes + forward.update_bytes, 0u);
  EXPECT_EQ(backward.written_bytes, 12 * (kModel - kEmbedding));
  EXPECT_EQ(backward.update_bytes, 32 * (kModel - kEmbedding));
  // The weights are those that the backward has read: an update reads the rest.
  EXPECT_EQ(backward.read_bytes,
            2 * (2 * kEmbedding + 3 * kLayer + kHead) + 10 * (kModel - kEmbedding));
  EXPECT_EQ(flush.written_bytes, 12 * kEmbedding);
  EXPECT_EQ(flush.read_bytes, 10 * kEmbedding);
  EXPECT_EQ(flush.update_bytes, 32 * kEmbedding);
}

TEST(PhaseTraffic, SomeImmediateUpdatesFillTheForward) {
  PlanRequest request =
      TrafficRequest(UpdateMode::kImmediate, TierChoice::kNvme, TierChoice::kNvme);
  request.deferred_share = 0.5;  // h.1 and the head
  uint64_t smallest = 0;
  ASSERT_TRUE(PlanSwaps(request, &smallest).ok());
  request.host_bytes = smallest + 2 * (kLayer + kHead);
  const auto [forward, backward, flush] = Phases(request);
  EXPECT_EQ(forward.read_bytes, 2 * 2 * kLayer + 12 * (kLayer + kHead));
  EXPECT_EQ(forward.written_bytes, 12 * (kLayer + kHead));
  EXPECT_EQ(forward.update_bytes, 26 * (kLayer + kHead));
  EXPECT_EQ(backward.read_bytes, 2 * (2 * kEmbedding + 3 * kLayer) + 10 * 2 * kLayer);
  EXPECT_EQ(backward.written_bytes, 12 * 2 * kLayer);
  EXPECT_EQ(backward.update_bytes, 32 * 2 * kLayer + 6 * (kLayer + kHead));
  EXPECT_EQ(flush.read_bytes, 10 * kEmbedding);
  // In all neither more nor less than without.
  request.deferred_share = 0;
  const auto plain = PlanSwaps(request);
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(forward.written_bytes + backward.written_bytes + flush.written_bytes,
            plain->traffic.written_bytes);
}

TEST(PhaseTraffic, SpilledInputsAreWrittenInTheForwardAndReadInTheBackward) {
  constexpr uint64_t kInput = 40960;
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    PlanRequest request = TrafficRequest(update, TierChoice::kNvme, TierChoice::kNvme);
    request.activation_bytes = {0, kInput, 2 * kInput, 3 * kInput, 0};
    request.activations = TierChoice::kDevice;
    const auto kept = Phases(request);
    request.activations = TierChoice::kNvme;
    const auto spilled = Phases(request);
    for (int phase = 0; phase < kPhases; ++phase) {
      const bool forward = phase == static_cast<int>(Phase::kForward);
      const bool backward = phase == static_cast<int>(Phase::kBackward);
      EXPECT_EQ(spilled[phase].written_bytes - kept[phase].written_bytes, forward ? 6 * kInput : 0);
      EXPECT_EQ(spilled[phase].read_bytes - kept[phase].read_bytes, backward ? 6 * kInput : 0);
      EXPECT_EQ(spilled[phase].update_bytes, kept[phase].update_bytes);
    }
  }
}

// Weights go to a separate device for each use, gradients come from there when they are whole.
TEST(PhaseTraffic, ASeparateDeviceHasCopiesInThePhaseOfTheirUse) {
  PlanRequest request = TrafficRequest(UpdateMode::kDeferred, TierChoice::kHost, TierChoice::kHost);
  request.separate_device = true;
  request.device_bytes = SmallestBudgets(request)->front().device_bytes;
  const auto [forward, backward, flush] = Phases(request);
  EXPECT_EQ(forward.to_device_bytes, 2 * (kEmbedding + 3 * kLayer));
  EXPECT_EQ(backward.to_device_bytes, 2 * (kHead + 2 * kEmbedding + 3 * kLayer));
  EXPECT_EQ(flush.to_device_bytes, 0u);
  EXPECT_EQ(forward.to_host_bytes, 0u);
  EXPECT_EQ(backward.to_host_bytes, 2 * (kModel - kEmbedding));
  EXPECT_EQ(flush.to_host_bytes, 2 * kEmbedding);
  // It rounds them itself; the workers update.
  EXPECT_EQ(backward.device_update_bytes, 6 * (kModel - kEmbedding));
  EXPECT_EQ(flush.device_update_bytes, 6 * kEmbedding);
  EXPECT_EQ(backward.update_bytes, 0u);
  EXPECT_EQ(forward.update_bytes, 26 * kModel);
}

TEST(PhaseTraffic, InputsAreCopiedByTheirOperations) {
  PlanRequest request =
      TrafficRequest(UpdateMode::kImmediate, TierChoice::kNvme, TierChoice::kNvme);
  request.separate_device = true;
  const auto [forward, backward, flush] = Phases(request);
  request.activation_bytes = {0, 8192, 8192, 8192, 0};
  request.activations = TierChoice::kHost;
  const auto [forward_moved, backward_moved, flush_moved] = Phases(request);
  EXPECT_EQ(forward_moved.to_host_bytes, forward.to_host_bytes + 3 * 8192);
  EXPECT_EQ(backward_moved.to_device_bytes, backward.to_device_bytes + 3 * 8192);
  EXPECT_EQ(flush_moved.to_host_bytes, flush.to_host_bytes);
}

TEST(PhaseTraffic, SumsThatAreRoundedTakeHalfTheMemoryAndNoRounding) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    PlanRequest request = TrafficRequest(update, TierChoice::kNvme, TierChoice::kNvme);
    const auto fp32 = PlanSwaps(request);
    request.rounded_sums = {true, true, true, true, false};
    const auto rounded = PlanSwaps(request);
    ASSERT_TRUE(fp32.ok() && rounded.ok());
    for (const GradientStay& stay : rounded->gradient_stays) {
      const uint64_t parameters = request.layout.PaddedParameters(stay.unit);
      EXPECT_EQ(stay.span.bytes, parameters * (stay.unit == 4 ? 4 : 2));
      EXPECT_EQ(RoundTouches(*fp32, stay.unit), parameters * 6);
      // The norm is taken of it where it waits, in memory; an update takes it as it is.
      const bool waits = update == UpdateMode::kDeferred;
      EXPECT_EQ(RoundTouches(*rounded, stay.unit),
                parameters * (stay.unit == 4 ? 6 : (waits ? 4 : 0)));
    }
    EXPECT_LT(SmallestHost(request),
              SmallestHost(TrafficRequest(update, TierChoice::kNvme, TierChoice::kNvme)));
  }
}

}  // namespace
}  // namespace spillway
