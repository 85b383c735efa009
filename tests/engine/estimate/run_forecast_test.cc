#include "engine/estimate/run_forecast.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/estimate/run_plan.h"
#include "gtest/gtest.h"
#include "io/base/format_bytes.h"
#include "swap/forecast/step_simulation.h"
#include "tests/device/slow_link_device.h"
#include "tests/device/test_device.h"
#include "tests/engine/cuda/emulated_kernels.h"
#include "tests/sanitizers.h"

namespace spillway {
namespace {

constexpr int kForward = 0, kBackward = 1;

// Twelve like layers between an embedding and a head that borrows it.
ModelDescription ForecastLayers() {
  ModelDescription model;
  for (int i = 0; i < 14; ++i) {
    UnitDescription unit;
    unit.name = absl::StrCat("u", i);
    ParameterDescription parameter;
    parameter.name = unit.name + ".weight";
    parameter.shape = {i == 13 ? 4 : 2000, 512};
    unit.parameters.push_back(parameter);
    if (i == 13) unit.borrows = {0};
    model.units.push_back(unit);
  }
  EXPECT_TRUE(LayOutParameters(model).ok());
  return model;
}

// All of it in the host's memory, for a device with `more` times the least that will do.
TrainOptions OnDevice(double clip, double more = 2,
                      OptimizerSpec::Kind optimizer = OptimizerSpec::Kind::kAdamW) {
  TrainOptions options;
  options.optimizer.kind = optimizer;
  options.dtype = DType::kBFloat16;
  options.clip = clip;
  options.offload_param = options.offload_optimizer = Offload::kCpu;
  RunPlanInput input;
  input.separate_device = true;
  const auto nothing = PlanRun(ForecastLayers(), options, input);
  EXPECT_TRUE(nothing.ok()) << nothing.status();
  const BudgetPair least = SmallestRunBudgets(*nothing).pair;
  options.device_memory_bytes = static_cast<uint64_t>(more * least.device_bytes);
  options.host_memory_bytes = static_cast<uint64_t>(more * least.host_bytes);
  return options;
}

// All of it on NVMe, in `more` times the least memory that will do.
TrainOptions OnNvme(double clip, double more = 2) {
  TrainOptions options;
  options.dtype = DType::kBFloat16;
  options.clip = clip;
  options.swap_paths = {"/swap"};
  options.offload_param = options.offload_optimizer = Offload::kNvme;
  const auto nothing = PlanRun(ForecastLayers(), options, {});
  EXPECT_TRUE(nothing.ok()) << nothing.status();
  const BudgetPair least = SmallestRunBudgets(*nothing).pair;
  options.device_memory_bytes = static_cast<uint64_t>(more * least.device_bytes);
  options.host_memory_bytes = static_cast<uint64_t>(more * least.host_bytes);
  return options;
}

SwapPlan PlanOf(const TrainOptions& options, const std::optional<StepClock>& clock = {},
                bool separate_device = false) {
  RunPlanInput input;
  input.clock = clock;
  input.separate_device = separate_device;
  auto run = PlanRun(ForecastLayers(), options, input);
  EXPECT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(run->swaps.has_value());
  return *run->swaps;
}

// A backward op takes three times as long as a forward's.
std::vector<double> OpsOf(const SwapPlan& plan, double unit_seconds) {
  std::vector<double> seconds;
  for (const StepOp& op : plan.schedule.ops) {
    seconds.push_back(unit_seconds * (op.kind == OpKind::kForward ? 1 : 3));
  }
  return seconds;
}

struct Machine {
  std::string slow;
  Resource resource;
  StepClock clock;
  double unit_seconds;
};

// Whatever is not slow takes a hundredth of a second or so.
std::vector<Machine> MachinesWithOneSlowResource() {
  const DiskRates fast = {1e11, 1e11, 1e11};
  const auto clock = [](DiskRates disk, double update) {
    StepClock made;
    made.disk = disk;
    made.update_bytes_per_second = update;
    return made;
  };
  return {{"disk read", Resource::kDisk, clock({1e7, 1e11, 1e11}, 1e11), 1e-4},
          {"disk write", Resource::kDisk, clock({1e11, 1e7, 1e11}, 1e11), 1e-4},
          {"disk", Resource::kDisk, clock({1e7, 1e7, 1e7}, 1e11), 1e-4},
          {"compute", Resource::kCompute, clock(fast, 1e11), 1},
          {"update", Resource::kUpdate, clock(fast, 1e7), 1e-4}};
}

TEST(RunForecast, OneSlowResourceIsNamedWhereItBinds) {
  for (double clip : {0.0, 1.0}) {
    for (const Machine& machine : MachinesWithOneSlowResource()) {
      SCOPED_TRACE(absl::StrCat(machine.slow, ", clip ", clip));
      const TrainOptions options = OnNvme(clip);
      StepClock clock = machine.clock;
      clock.op_seconds = OpsOf(PlanOf(options), machine.unit_seconds);
      const SwapPlan plan = PlanOf(options, clock);
      const StepForecast step = ForecastRun(plan, clock);
      EXPECT_EQ(step.binding, machine.resource) << ResourceName(step.binding);
      // In each phase in which it has work.
      const auto traffic = TrafficByPhase(plan);
      for (int i = 0; i < kPhases; ++i) {
        const bool works = machine.slow == "disk read"    ? traffic[i].read_bytes > 0
                           : machine.slow == "disk write" ? traffic[i].written_bytes > 0
                           : machine.slow == "disk"
                               ? traffic[i].read_bytes + traffic[i].written_bytes > 0
                           : machine.slow == "update" ? traffic[i].update_bytes > 0
                                                      : i <= kBackward;
        SCOPED_TRACE(PhaseName(static_cast<Phase>(i)));
        if (works) {
          EXPECT_EQ(step.phases[i].binding, machine.resource)
              << ResourceName(step.phases[i].binding);
        } else {
          EXPECT_LT(step.phases[i].SecondsOf(machine.resource), 0.01);
        }
      }
      // And it is what the step takes.
      double alone = 0;
      for (const PhaseForecast& phase : step.phases) alone += phase.SecondsOf(machine.resource);
      EXPECT_GT(alone, 1);
      EXPECT_NEAR(step.bound_seconds, alone, 0.01 * alone);
      EXPECT_NEAR(step.predicted_seconds, alone, 0.05 * alone);
    }
  }
}

TEST(RunForecast, APhaseWithSlowComputeIsTheOnlyOneThatItBinds) {
  const TrainOptions options = OnNvme(1);  // all updates in forward
  StepClock clock;
  clock.disk = {1e9, 1e9, 1e9};
  clock.update_bytes_per_second = 1e10;
  const SwapPlan plan = PlanOf(options);
  for (const StepOp& op : plan.schedule.ops) {
    clock.op_seconds.push_back(op.kind == OpKind::kForward ? 1e-4 : 1);
  }
  const StepForecast step = ForecastRun(plan, clock);
  EXPECT_EQ(step.phases[kForward].binding, Resource::kDisk);
  EXPECT_EQ(step.phases[kBackward].binding, Resource::kCompute);
}

// Of three simulated steps the last does a hundredth more or less than a step's work.
TEST(RunForecast, TheBoundIsNeverAboveASimulatedStep) {
  std::mt19937 random(7);
  const auto rate = [&](double least) { return least * std::pow(30, random() / 4294967296.0); };
  for (int round = 0; round < Rounds(100); ++round) {
    TrainOptions options = OnNvme(round % 2, 1.05 + (random() % 40) * 0.1);
    if (round % 3 == 0) options.offload_param = options.offload_optimizer = Offload::kCpu;
    if (round % 3 == 0) options.host_memory_bytes = options.device_memory_bytes = 1024 * kMiB;
    StepClock clock;
    clock.disk = {rate(2e8), rate(2e8), 0};
    clock.disk.mixed_bytes_per_second =
        rate(0.1 * (clock.disk.read_bytes_per_second + clock.disk.write_bytes_per_second));
    clock.update_bytes_per_second = rate(1e9);
    clock.shared_cores = (random() % 3) * 0.5;
    clock.op_seconds = OpsOf(PlanOf(options), rate(2e-3));
    const SwapPlan plan = PlanOf(options, clock);
    const double simulated = SimulateStep(plan, clock).seconds;
    EXPECT_LE(ForecastRun(plan, clock).bound_seconds, simulated * 1.02) << "round " << round;
  }
}

TEST(RunForecast, APredictionAtObservedRatesIsOneMadeWithThoseRates) {
  const TrainOptions options = OnNvme(1);
  StepClock clock;
  clock.disk = {3e8, 2e8, 4e8};
  clock.update_bytes_per_second = 1e10;
  clock.op_seconds = OpsOf(PlanOf(options), 1e-3);
  const SwapPlan plan = PlanOf(options, clock);
  StepClock half = clock;
  half.disk = {1.5e8, 1e8, 2e8};
  // What the steps of a run on a disk of half the rate would count.
  ObservedRates observed{plan.traffic.read_bytes, plan.traffic.written_bytes, 0};
  observed.busy_seconds = half.disk.Seconds(static_cast<double>(observed.read_bytes),
                                            static_cast<double>(observed.written_bytes));
  const StepClock judged = AtObservedRates(clock, observed);
  EXPECT_DOUBLE_EQ(judged.disk.read_bytes_per_second, half.disk.read_bytes_per_second);
  EXPECT_DOUBLE_EQ(judged.disk.write_bytes_per_second, half.disk.write_bytes_per_second);
  EXPECT_DOUBLE_EQ(judged.disk.mixed_bytes_per_second, half.disk.mixed_bytes_per_second);
  EXPECT_EQ(judged.op_seconds, clock.op_seconds);
  EXPECT_EQ(judged.update_bytes_per_second, clock.update_bytes_per_second);
  EXPECT_NEAR(ForecastRun(plan, judged).predicted_seconds,
              ForecastRun(plan, half).predicted_seconds, 1e-9);
  EXPECT_GT(ForecastRun(plan, half).predicted_seconds,
            1.5 * ForecastRun(plan, clock).predicted_seconds);
}

TEST(RunForecast, WhereTheDiskMovedNothingTheClockStays) {
  StepClock clock;
  clock.op_seconds = {1, 2};
  EXPECT_EQ(AtObservedRates(clock, {}).disk, clock.disk);             // no disk at all
  EXPECT_EQ(AtObservedRates(clock, {100, 200, 1}).disk, clock.disk);  // but for commits
  clock.disk = {3e8, 2e8, 4e8};
  EXPECT_EQ(AtObservedRates(clock, {}).disk, clock.disk);
  EXPECT_EQ(AtObservedRates(clock, {100, 0, 0}).disk, clock.disk);
  EXPECT_EQ(AtObservedRates(clock, {0, 0, 1}).disk, clock.disk);
}

TEST(RunForecast, OpsTakeTheirUnitsSeconds) {
  const SwapPlan plan = PlanOf(OnNvme(0));
  DryRun dry_run;
  for (int unit = 0; unit < 14; ++unit) {
    dry_run.forward_seconds.push_back(1 + unit);
    dry_run.backward_seconds.push_back(100 + unit);
  }
  const std::vector<double> seconds = OpSeconds(plan.schedule, dry_run);
  ASSERT_EQ(seconds.size(), 27u);
  EXPECT_EQ(seconds[0], 1);
  EXPECT_EQ(seconds[13], 113);  // the head's loss and backward
  EXPECT_EQ(seconds[26], 100);
}

// The same on a device with memory of its own, whose link is one more resource.
TEST(RunForecast, OneSlowResourceIsNamedWhereItBindsOnADevice) {
  struct Slow {
    std::string name;
    Resource resource;
    LinkRates link;
    double update, device_update, unit_seconds;
  };
  const double fast = 1e12;
  for (double clip : {0.0, 1.0}) {
    for (const Slow& slow : {Slow{"to device", Resource::kCopy, {1e7, fast}, fast, fast, 1e-4},
                             Slow{"to host", Resource::kCopy, {fast, 1e7}, fast, fast, 1e-4},
                             Slow{"update", Resource::kUpdate, {fast, fast}, 1e7, fast, 1e-4},
                             Slow{"device", Resource::kUpdate, {fast, fast}, fast, 1e7, 1e-4},
                             Slow{"compute", Resource::kCompute, {fast, fast}, fast, fast, 1}}) {
      SCOPED_TRACE(absl::StrCat(slow.name, ", clip ", clip));
      TrainOptions options = OnDevice(clip);
      // Left to the plan, whoever is slow does not update.
      options.update_device = UpdateDevice::kCpu;
      StepClock clock;
      clock.link = slow.link;
      clock.update_bytes_per_second = slow.update;
      clock.device_update_bytes_per_second = slow.device_update;
      clock.op_seconds = OpsOf(PlanOf(options, {}, true), slow.unit_seconds);
      const SwapPlan plan = PlanOf(options, clock, true);
      ASSERT_TRUE(plan.separate_device);
      ASSERT_GT(plan.traffic.to_device_bytes, 0u);
      const StepForecast step = ForecastRun(plan, clock);
      EXPECT_EQ(step.binding, slow.resource) << ResourceName(step.binding);
      double alone = 0;
      for (const PhaseForecast& phase : step.phases) {
        alone += phase.SecondsOf(slow.resource);
        if (phase.SecondsOf(slow.resource) > 0.05) {
          EXPECT_EQ(phase.binding, slow.resource);
        }
      }
      EXPECT_GT(alone, 1);
      EXPECT_NEAR(step.bound_seconds, alone, 0.01 * alone);
      EXPECT_NEAR(step.predicted_seconds, alone, 0.05 * alone);
    }
  }
}

TEST(RunForecast, TheBoundIsNeverAboveASimulatedStepOnADevice) {
  std::mt19937 random(11);
  const auto rate = [&](double least) { return least * std::pow(30, random() / 4294967296.0); };
  for (int round = 0; round < Rounds(60); ++round) {
    const TrainOptions options = OnDevice(round % 2, 1.05 + (random() % 40) * 0.1);
    StepClock clock;
    clock.link = {rate(2e8), rate(2e8)};
    clock.update_bytes_per_second = rate(1e9);
    clock.device_update_bytes_per_second = rate(1e9);
    clock.op_seconds = OpsOf(PlanOf(options, {}, true), rate(2e-3));
    const SwapPlan plan = PlanOf(options, clock, true);
    const double simulated = SimulateStep(plan, clock).seconds;
    EXPECT_LE(ForecastRun(plan, clock).bound_seconds, simulated * 1.02) << "round " << round;
  }
}

TEST(RunForecast, APredictionAtObservedRatesHasTheLinksOwn) {
  StepClock clock;
  clock.op_seconds = {1, 2};
  clock.link = {4e9, 2e9};
  ObservedRates observed;
  observed.to_device = {3000, 1e-6};
  EXPECT_EQ(AtObservedRates(clock, observed).link, (LinkRates{3e9, 2e9}));
  observed.to_host = {1000, 1e-6};
  EXPECT_EQ(AtObservedRates(clock, observed).link, (LinkRates{3e9, 1e9}));
  observed.to_device = {0, 1};
  observed.to_host = {1, 0};
  EXPECT_EQ(AtObservedRates(clock, observed).link, clock.link);
  clock.link = {};  // the plan has nothing copied
  observed.to_device = {3000, 1e-6};
  EXPECT_EQ(AtObservedRates(clock, observed).link, LinkRates());
}

// On the machine as it is: a device is timed with its link, and without one there is no clock.
TEST(RunForecast, ADevicesLinkIsMeasuredOnceAndKept) {
  const std::string path = testing::TempDir() + "/link-profile.json";
  std::filesystem::remove(path);
  setenv("SPILLWAY_PROFILE", path.c_str(), 1);
  TrainOptions options = OnDevice(1);
  options.threads = 2;
  const SwapPlan plan = PlanOf(options, {}, true);
  DryRun dry_run;
  dry_run.forward_seconds.assign(14, 1);
  dry_run.backward_seconds.assign(14, 3);
  TestDevice below({.most_dawdling_us = 0});
  SlowLinkDevice device(&below, {4e8, 4e8});
  const auto clock = MeasureClock(plan, options, dry_run, 2, {}, &device);
  ASSERT_TRUE(clock.has_value());
  EXPECT_GT(clock->link.to_device_bytes_per_second, 0);
  EXPECT_LE(clock->link.to_device_bytes_per_second, 4e8);
  EXPECT_GT(clock->link.to_host_bytes_per_second, 0);
  EXPECT_GT(clock->device_update_bytes_per_second, 0);
  EXPECT_EQ(clock->shared_cores, 0);
  EXPECT_GT(ForecastRun(plan, *clock).predicted_seconds, 14 * 4 - 1);
  SlowLinkDevice slower(&below, {1e8, 1e8});  // under the same name
  const auto again = MeasureClock(plan, options, dry_run, 2, {}, &slower);
  EXPECT_EQ(again->link, clock->link);
  EXPECT_FALSE(MeasureClock(plan, options, dry_run, 2, {}, nullptr).has_value());
  setenv("SPILLWAY_PROFILE", "off", 1);
}

// There are no kernels for what is measured first.
TEST(RunForecast, ADeviceIsNotTimedAtUpdatesThatTheHostMakes) {
  for (const auto kind : {OptimizerSpec::Kind::kLamb, OptimizerSpec::Kind::kAdafactor}) {
    const std::string path = testing::TempDir() + "/host-updates-profile.json";
    std::filesystem::remove(path);
    setenv("SPILLWAY_PROFILE", path.c_str(), 1);
    TrainOptions options = OnDevice(1, 2, kind);
    options.threads = 2;
    const SwapPlan plan = PlanOf(options, {}, true);
    ASSERT_FALSE(plan.gradient_stays.empty());
    DryRun dry_run;
    dry_run.forward_seconds.assign(14, 1);
    dry_run.backward_seconds.assign(14, 3);
    TestDevice device({.native_stream = EmulatedStream()});
    const auto clock = MeasureClock(plan, options, dry_run, 2, {}, &device);
    ASSERT_TRUE(clock.has_value());
    EXPECT_GT(clock->link.to_device_bytes_per_second, 0);
    EXPECT_GT(clock->device_update_bytes_per_second, 0) << "it rounds";
    EXPECT_GT(clock->update_bytes_per_second, 0);
    EXPECT_GT(ForecastRun(plan, *clock).predicted_seconds, 14 * 4 - 1);
  }
  setenv("SPILLWAY_PROFILE", "off", 1);
}

TEST(UpdateWorkers, AreThoseAskedForOrSuitWhatTheRanksHereShare) {
  TrainOptions options;
  options.threads = 64;
  EXPECT_EQ(UpdateWorkers(options, 64, /*separate_device=*/false), 8);
  // There compute leaves all but one.
  EXPECT_EQ(UpdateWorkers(options, 12, /*separate_device=*/true), 11);
  options.ranks_here = 4;
  options.threads = 10;
  EXPECT_EQ(UpdateWorkers(options, 64, /*separate_device=*/false), 6);
  EXPECT_EQ(UpdateWorkers(options, 12, /*separate_device=*/true), 2);
  options.update_threads = 3;
  EXPECT_EQ(UpdateWorkers(options, 64, /*separate_device=*/true), 3);
}

}  // namespace
}  // namespace spillway
