// The swap manager on a device with memory of its own, whose streams are threads.
#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "swap/plan/planner.h"
#include "tests/device/test_device.h"
#include "tests/swap/mover/swap_training.h"
#include "tests/swap/plan/plan_checks.h"

namespace spillway {
namespace {

class SwapOnDevice : public SwapTraining {
 protected:
  // A run of `request` on a test device of its own, against the oracle.
  void TrainOn(uint64_t seed, const RunShape& shape, const PlanRequest& request,
               SwapManagerOptions options, int steps) {
    TestDeviceOptions device_options;
    device_options.seed = seed;
    TestDevice device(device_options);
    options.device = &device;
    auto run = SwapRun::Create(shape, request, directory(), options);
    ASSERT_TRUE(run.ok()) << run.status();
    CheckAddresses((*run)->manager().plan());
    ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
    Oracle oracle(shape);
    Train(**run, oracle, shape, request.schedule.update, steps, seed);
    EXPECT_GT(device.copies(), 0u);
  }

  // What is copied in four steps, against the plan.
  void ExpectCopies(const RunShape& shape, const PlanRequest& request) {
    TestDevice device({});
    SwapManagerOptions options;
    options.device = &device;
    auto run = SwapRun::Create(shape, request, directory(), options);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
    SwapManager& manager = (*run)->manager();
    Oracle oracle(shape);
    const uint64_t first = manager.stats().to_device_bytes;  // what has its home there
    std::vector<SwapStats> ends;
    for (int step = 1; step <= 4; ++step) {
      manager.Enqueue(Program::kTrain);
      UpdateScalars scalars;
      scalars.step = step;
      if (request.schedule.update == UpdateMode::kImmediate) manager.AnnounceUpdate(scalars);
      ASSERT_EQ((*run)->RunOps(request.schedule.ops.size(), true, oracle), absl::OkStatus());
      if (request.schedule.update == UpdateMode::kDeferred) {
        ASSERT_TRUE(manager.AwaitGradients().ok());
        for (int measure = 0; measure < request.schedule.measures.all(); ++measure) {
          ASSERT_EQ(manager.MeasureUpdate(scalars, measure), absl::OkStatus());
        }
        manager.AnnounceUpdate(scalars);
      }
      oracle.Step(request.schedule, step, false);
      ends.push_back(manager.stats());
    }
    ASSERT_EQ(manager.Flush(), absl::OkStatus());
    ends.push_back(manager.stats());
    // Of all steps: what one leaves over, the next does, but for what an update brings to the
    // forward after it, which the last has not.
    const StepTraffic& traffic = manager.plan().traffic;
    const uint64_t partials = 4 * 8 * kPartialBytes;  // of four steps' tiles
    EXPECT_NEAR(ends.back().to_host_bytes, 4.0 * traffic.to_host_bytes, partials);
    // Weights that an update would have put there are copied where it had come to an end before.
    uint64_t filled = 0;
    for (const WeightStay& stay : manager.plan().weight_stays) {
      if (!manager.plan().CopiedToDevice(stay)) filled += stay.span.bytes;
    }
    const uint64_t to_device = ends.back().to_device_bytes - first;
    EXPECT_LE(to_device, 4 * (traffic.to_device_bytes + filled));
    EXPECT_GE(to_device, 3 * traffic.to_device_bytes);
  }
};

TEST_F(SwapOnDevice, EveryPlacementBudgetAndModeGivesTheOraclesBits) {
  const RunShape shape = SmallShape();
  uint32_t seed = 1;
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    for (TierChoice tier :
         {TierChoice::kDevice, TierChoice::kHost, TierChoice::kNvme, TierChoice::kAuto}) {
      PlanRequest request = RequestFor(shape, update, tier, 0);
      request.separate_device = true;
      const BudgetPair smallest = SmallestBudgets(request)->front();
      for (uint64_t extra : {0, 20000, 60000, 10000000}) {
        SCOPED_TRACE(testing::Message()
                     << "update " << int(update) << " tier " << int(tier) << " extra " << extra);
        request.host_bytes = smallest.host_bytes + extra;
        request.device_bytes = smallest.device_bytes + extra;
        TrainOn(seed, shape, request, {}, 12);
        ++seed;
      }
    }
  }
}

TEST_F(SwapOnDevice, RandomModelsAndBudgetsGiveTheOraclesBits) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    RunShape shape = RandomShape(random);
    const UpdateMode update = random() % 2 ? UpdateMode::kImmediate : UpdateMode::kDeferred;
    if (random() % 2) {
      shape.measures = {static_cast<int>(random() % 3), static_cast<int>(random() % 2)};
    }
    const TierChoice choices[] = {TierChoice::kAuto, TierChoice::kHost, TierChoice::kNvme};
    PlanRequest request = RequestFor(shape, update, TierChoice::kAuto, 0);
    request.separate_device = true;
    request.weights = random() % 4 ? choices[random() % 3] : TierChoice::kDevice;
    request.optimizer = choices[random() % 3];
    if (random() % 2) {
      request.activations = choices[random() % 3];
      request.activation_bytes.resize(shape.units.size());
      for (uint64_t& bytes : request.activation_bytes) bytes = (random() % 4) * (random() % 9000);
      // The largest input is there while it is computed with.
      request.input_in_flight_bytes = 40000;
    }
    request.deferred_share = (random() % 4) / 3.0;
    request.device_update_share = (random() % 4) / 3.0;
    const BudgetPair smallest = SmallestBudgets(request)->front();
    request.host_bytes = smallest.host_bytes + (random() % 3) * (random() % 200000);
    request.device_bytes = smallest.device_bytes + (random() % 3) * (random() % 100000);
    SwapManagerOptions options;
    options.workers = 1 + random() % 3;
    TrainOn(seed, shape, request, options, 8);
  }
}

// What the plan says is copied in a steady step is what is copied.
TEST_F(SwapOnDevice, CopiesAreThePlans) {
  const RunShape shape = SmallShape();
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    for (TierChoice tier : {TierChoice::kHost, TierChoice::kNvme}) {
      for (const double share : {0.0, 0.5, 1.0}) {
        SCOPED_TRACE(testing::Message()
                     << "update " << int(update) << " tier " << int(tier) << " share " << share);
        PlanRequest request = RequestFor(shape, update, tier, 10000000);
        request.separate_device = true;
        request.device_update_share = share;
        ExpectCopies(shape, request);
      }
    }
  }
}

// The host measures, and weights that live on the device come for it once more.
TEST_F(SwapOnDevice, WhatIsMeasuredIsCopiedAsThePlanSays) {
  RunShape shape = SmallShape();
  for (const MeasurePasses measures : {MeasurePasses{2, 0}, MeasurePasses{1, 1}}) {
    shape.measures = measures;
    uint64_t to_host[2];  // with the weights in the host's memory, and on the device
    for (TierChoice weights : {TierChoice::kHost, TierChoice::kDevice}) {
      for (TierChoice optimizer : {TierChoice::kHost, TierChoice::kNvme}) {
        SCOPED_TRACE(testing::Message() << measures.states << " weights " << int(weights)
                                        << " optimizer " << int(optimizer));
        PlanRequest request = RequestFor(shape, UpdateMode::kDeferred, optimizer, 10000000);
        request.separate_device = true;
        request.weights = weights;
        request.device_update_share = 1;  // without effect
        ExpectCopies(shape, request);
        to_host[weights == TierChoice::kDevice] = PlanSwaps(request)->traffic.to_host_bytes;
      }
    }
    const uint64_t bytes = 4 * LayoutOf(shape).TotalPaddedParameters();
    EXPECT_EQ(to_host[1], to_host[0] + (1 + measures.states) * bytes);
  }
}

TEST_F(SwapOnDevice, WhatIsMeasuredIsNeverThePlansChoiceForTheDevice) {
  RunShape shape = SmallShape();
  shape.measures = {0, 1};
  PlanRequest request = RequestFor(shape, UpdateMode::kDeferred, TierChoice::kAuto, 10000000);
  request.separate_device = true;
  const auto plan = PlanSwaps(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (size_t unit = 0; unit < shape.units.size(); ++unit) {
    EXPECT_FALSE(plan->DeviceUpdates(static_cast<int>(unit)));
  }
  request.optimizer = TierChoice::kDevice;
  for (TierChoice weights : {TierChoice::kDevice, TierChoice::kHost}) {
    request.weights = weights;
    const absl::Status status = PlanSwaps(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(status.message()),
        testing::HasSubstr("its state cannot live on the device: give --offload-optimizer"));
  }
}

// Weights and sums of one operation, and what gradients pass through: more is not needed there.
TEST_F(SwapOnDevice, TheSmallestDeviceHoldsWhatOneOperationUses) {
  const RunShape shape = SmallShape();
  PlanRequest request = RequestFor(shape, UpdateMode::kDeferred, TierChoice::kHost, 10000000);
  request.separate_device = true;
  const BudgetPair smallest = SmallestBudgets(request)->front();
  // The embedding's weights and sums (4 bytes each, as the head's borrow them), the head's own,
  // the embedding's sums through the whole backward, and one layer's beside them.
  EXPECT_GE(smallest.device_bytes, 4u * (2 * 3 * 2048 + 2 * 2048));
  EXPECT_LE(smallest.device_bytes, 4u * (2 * 3 * 2048 + 2 * 2 * 2048 + 2 * 2048) + 3 * 4096);
  request.device_bytes = smallest.device_bytes - 1;
  EXPECT_EQ(PlanSwaps(request).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(SwapOnDevice, OptimizerStateThereWithoutItsWeightsIsRefusedWithTheFlags) {
  PlanRequest request =
      RequestFor(SmallShape(), UpdateMode::kDeferred, TierChoice::kDevice, 10000000);
  request.separate_device = true;
  request.weights = TierChoice::kHost;
  const absl::Status status = PlanSwaps(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--offload-param none"));
}

// Left to the plan, state is there when all of it has room, and is not when a byte is missing.
TEST_F(SwapOnDevice, AllOfTheStateLivesThereOrNone) {
  for (bool storage : {true, false}) {
    PlanRequest request = RequestFor(SmallShape(), UpdateMode::kDeferred, TierChoice::kDevice, 0);
    request.separate_device = true;
    const BudgetPair whole = SmallestBudgets(request)->front();
    request.weights = request.optimizer = TierChoice::kAuto;
    request.has_storage = storage;
    request.host_bytes = 10000000;
    request.device_bytes = whole.device_bytes;
    auto plan = PlanSwaps(request);
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const UnitPlacement& unit : plan->placements) EXPECT_EQ(unit.optimizer, Tier::kDevice);
    EXPECT_EQ(plan->traffic.to_device_bytes + plan->traffic.to_host_bytes, 0u);
    --request.device_bytes;
    plan = PlanSwaps(request);
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const UnitPlacement& unit : plan->placements) EXPECT_EQ(unit.optimizer, Tier::kHost);
    // Also where the host has no room for any of it.
    request.device_bytes = whole.device_bytes;
    request.host_bytes = whole.host_bytes;
    EXPECT_TRUE(PlanSwaps(request).ok());
  }
}

// A kernel that fails ends the run, at the next call.
TEST_F(SwapOnDevice, ABrokenDeviceIsTheStatusOfTheNextCall) {
  const RunShape shape = SmallShape();
  PlanRequest request = RequestFor(shape, UpdateMode::kDeferred, TierChoice::kNvme, 10000000);
  request.separate_device = true;
  TestDevice device({});
  SwapManagerOptions options;
  options.device = &device;
  auto run = SwapRun::Create(shape, request, directory(), options);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
  SwapManager& manager = (*run)->manager();
  manager.Enqueue(Program::kTrain);
  ASSERT_TRUE(manager.BeginOp().ok());
  device.Launch(StreamId::kCompute, [](void*) { return absl::InternalError("the fan fell off"); });
  manager.EndOp();
  absl::Status status;
  for (int op = 1; op < request.schedule.ops.size() && status.ok(); ++op) {
    status = manager.BeginOp().status();
    if (status.ok()) manager.EndOp();
  }
  if (status.ok()) status = manager.AwaitGradients().status();
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the fan fell off"));
}

}  // namespace
}  // namespace spillway
