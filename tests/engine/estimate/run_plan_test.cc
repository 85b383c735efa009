#include "engine/estimate/run_plan.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "engine/base/size.h"
#include "engine/machine/memory_limits.h"
#include "engine/model/frozen_parameters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

using testing::HasSubstr;

ModelDescription SmallModel() {
  ModelDescription model;
  for (int i = 0; i < 6; ++i) {
    UnitDescription unit;
    unit.name = absl::StrCat("u", i);
    ParameterDescription parameter;
    parameter.name = unit.name + ".weight";
    parameter.shape = {i == 0 ? 4000 : 1000, 512};
    unit.parameters.push_back(parameter);
    if (i == 5) unit.borrows = {0};
    model.units.push_back(unit);
  }
  EXPECT_TRUE(LayOutParameters(model).ok());
  return model;
}

TrainOptions Options(uint64_t device, uint64_t host, bool swap) {
  TrainOptions options;
  options.device_memory_bytes = device;
  options.host_memory_bytes = host;
  if (swap) options.swap_paths = {"/swap"};
  return options;
}

bool Fits(const TrainOptions& options) {
  const auto plan = PlanRun(SmallModel(), options, {.memory = {10 * kMiB}});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan->swaps.has_value();
}

TEST(RunPlan, PartsOfUnitsHaveNoInputs) {
  ModelDescription model = SmallModel();
  for (UnitDescription& unit : model.units) {
    unit.parameters.push_back({unit.name + ".bias", {4096}});
  }
  ASSERT_TRUE(
      FreezeParameters([](const std::string& name) { return name.back() == 's'; }, model).ok());
  ASSERT_EQ(model.units.size(), 12u);
  ASSERT_EQ(model.num_computing(), 6);
  for (int ranks : {1, 2}) {
    TrainOptions options = Options(400 * kMiB, 400 * kMiB, false);
    options.ranks = options.shard_group_size = ranks;
    RunPlanInput input;
    input.memory.working_bytes = 10 * kMiB;
    input.memory.input_bytes.assign(6, kMiB);
    const auto plan = PlanRun(model, options, input);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->request.activation_bytes.size(), 12u);
    ASSERT_TRUE(plan->swaps.has_value());
    EXPECT_EQ(plan->swaps->activation_bytes[1], kMiB);
    EXPECT_EQ(plan->swaps->activation_bytes[11], 0u);
    EXPECT_EQ(plan->graphs.keeps.size(), 6u);
  }
}

// Budgets are limits: it is what the plan takes that must be there.
TEST(RunPlan, MemoryThatNoMachineHasIsRefused) {
  const auto plan =
      PlanRun(SmallModel(), Options(4 * kGiB, 4 * kGiB, false), {.memory = {10 * kMiB}});
  ASSERT_TRUE(plan.ok() && plan->swaps.has_value());
  EXPECT_TRUE(CheckMachineMemory(*plan, false, kGiB).ok());
  const absl::Status refused = CheckMachineMemory(*plan, false, 20 * kMiB);
  EXPECT_EQ(ExitCodeOf(refused), 3);
  EXPECT_THAT(std::string(refused.message()),
              testing::AllOf(HasSubstr("this machine has 20 MiB"), HasSubstr("--swap PATH")));
  // A device's own memory is not this machine's.
  const uint64_t host = plan->swaps->host_arena_bytes + plan->book_bytes;
  EXPECT_TRUE(CheckMachineMemory(*plan, true, host).ok());
  EXPECT_FALSE(CheckMachineMemory(*plan, false, host).ok());
  EXPECT_FALSE(CheckMachineMemory(*plan, true, host - 1).ok());
}

TEST(RunPlan, TheSmallestBudgetsFitAndOneByteLessDoesNot) {
  for (bool swap : {true, false}) {
    for (uint64_t device : {20 * kMiB, 60 * kMiB, 400 * kMiB}) {
      for (uint64_t host : {5 * kMiB, 50 * kMiB, 400 * kMiB}) {
        SCOPED_TRACE(absl::StrCat(swap, " ", device / kMiB, " ", host / kMiB));
        const TrainOptions given = Options(device, host, swap);
        const auto plan = PlanRun(SmallModel(), given, {.memory = {10 * kMiB}});
        ASSERT_TRUE(plan.ok()) << plan.status();
        const RunMinimums least = SmallestRunBudgets(*plan);
        ASSERT_TRUE(least.host_bytes.has_value());
        EXPECT_TRUE(Fits(Options(device, *least.host_bytes, swap)));
        EXPECT_FALSE(Fits(Options(device, *least.host_bytes - 1, swap)));
        if (least.device_bytes) {
          EXPECT_TRUE(Fits(Options(*least.device_bytes, host, swap)));
          EXPECT_FALSE(Fits(Options(*least.device_bytes - 1, host, swap)));
        } else {
          EXPECT_FALSE(Fits(Options(uint64_t{1} << 40, host, swap)));
        }
        EXPECT_TRUE(Fits(Options(least.pair.device_bytes, least.pair.host_bytes, swap)));
        EXPECT_FALSE(Fits(Options(least.pair.device_bytes, least.pair.host_bytes - 1, swap)));
        EXPECT_FALSE(Fits(Options(least.pair.device_bytes - 1, least.pair.host_bytes, swap)));
        EXPECT_EQ(plan->swaps.has_value(), host >= *least.host_bytes);
      }
    }
  }
}

TEST(RunPlan, WithoutSwapTheDevicesMemorySparesTheHosts) {
  const auto least = [](uint64_t device) {
    return *SmallestRunBudgets(*PlanRun(SmallModel(), Options(device, kMiB, false), {})).host_bytes;
  };
  EXPECT_LT(least(60 * kMiB), least(20 * kMiB));
}

TEST(RunPlan, NoHostBudgetHelpsWhereComputingDoesNotFitTheDevice) {
  const auto plan =
      PlanRun(SmallModel(), Options(10 * kMiB, 400 * kMiB, true), {.memory = {10 * kMiB}});
  ASSERT_TRUE(plan.ok());
  EXPECT_FALSE(plan->swaps.has_value());
  const RunMinimums least = SmallestRunBudgets(*plan);
  EXPECT_FALSE(least.host_bytes.has_value());
  EXPECT_EQ(*least.device_bytes, plan->compute_bytes);
}

TEST(RunPlan, TheRefusalHasTheNumbersAndItsExitCode) {
  const auto plan = PlanRun(SmallModel(), Options(40 * kMiB, kMiB, false), {.memory = {10 * kMiB}});
  ASSERT_TRUE(plan.ok());
  const absl::Status refusal = RefusalOf(*plan);
  EXPECT_EQ(ExitCodeOf(refusal), 3);
  const std::string text(refusal.message());
  EXPECT_THAT(text, HasSubstr("does not fit --device-memory 40 MiB and --host-memory 1 MiB"));
  EXPECT_THAT(text, HasSubstr("at least --device-memory 15MiB and --host-memory"));
  EXPECT_THAT(text, HasSubstr("with the other as it is"));
  EXPECT_THAT(text, HasSubstr("--swap PATH"));
}

TEST(RunPlan, ARefusalByGuessClaimsNoExactNumbers) {
  const auto plan = PlanRun(SmallModel(), Options(40 * kMiB, kMiB, false), {.memory = {10 * kMiB}});
  const std::string text(RefusalOf(*plan, /*measured=*/false).message());
  EXPECT_THAT(text, HasSubstr("needs about --device-memory 15MiB"));
  EXPECT_THAT(text, HasSubstr("guessed from the model's shape"));
  EXPECT_THAT(text, testing::Not(HasSubstr("at least")));
}

TEST(RunPlan, CopiesOfCommitsTakeBooksOfTheirOwn) {
  const TrainOptions options = Options(100 * kMiB, 100 * kMiB, true);
  const auto plain = PlanRun(SmallModel(), options, {});
  const auto copied = PlanRun(SmallModel(), options, {.copies = true});
  EXPECT_GT(SmallestRunBudgets(*copied).pair.host_bytes,
            SmallestRunBudgets(*plain).pair.host_bytes);
}

TEST(RunPlan, ContradictionsAreErrorsAndNoRefusals) {
  TrainOptions options = Options(kMiB, kMiB, false);
  options.offload_optimizer = Offload::kNvme;
  EXPECT_EQ(PlanRun(SmallModel(), options, {}).status().code(), absl::StatusCode::kInvalidArgument);
  options = Options(kMiB, kMiB, true);
  options.update = UpdateChoice::kImmediate;
  EXPECT_EQ(PlanRun(SmallModel(), options, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RunPlan, AGpuUpdatesWhatItIsTold) {
  TrainOptions options = Options(200 * kMiB, 400 * kMiB, false);
  options.offload_param = options.offload_optimizer = Offload::kCpu;
  RunPlanInput input = {.separate_device = true, .memory = {10 * kMiB}};
  for (const auto& [choice, streamed] :
       {std::pair{UpdateDevice::kAuto, 0}, {UpdateDevice::kCpu, 0}, {UpdateDevice::kGpu, 6}}) {
    options.update_device = choice;
    const auto plan = PlanRun(SmallModel(), options, input);
    ASSERT_TRUE(plan.ok() && plan->swaps) << plan.status();
    const std::vector<bool>& units = plan->swaps->streams_update;
    EXPECT_EQ(std::count(units.begin(), units.end(), true), streamed);
  }
  input.separate_device = false;
  const absl::Status status = PlanRun(SmallModel(), options, input).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--device cuda"));
}

TEST(RunPlan, WhatIsMeasuredFirstIsUpdatedByTheHost) {
  TrainOptions options = Options(200 * kMiB, 400 * kMiB, false);
  options.optimizer.kind = OptimizerSpec::Kind::kLamb;
  const RunPlanInput input = {.separate_device = true, .memory = {10 * kMiB}};
  // All of it has room on the device, where it would be updated.
  const auto plan = PlanRun(SmallModel(), options, input);
  ASSERT_TRUE(plan.ok() && plan->swaps) << plan.status();
  for (int unit = 0; unit < plan->swaps->layout.num_units(); ++unit) {
    EXPECT_FALSE(plan->swaps->DeviceUpdates(unit));
  }
  const auto refusal = [&] {
    const absl::Status status = PlanRun(SmallModel(), options, input).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  options.update_device = UpdateDevice::kGpu;
  EXPECT_THAT(refusal(), HasSubstr("--update-device gpu cannot be had with --optimizer lamb"));
  options.update_device = UpdateDevice::kAuto;
  options.offload_param = options.offload_optimizer = Offload::kNone;
  EXPECT_THAT(refusal(), HasSubstr("give --offload-optimizer cpu or nvme"));
}

GraphCosts CostsOf(uint64_t layer_bytes) {
  GraphCosts costs;
  costs.bytes = {0, layer_bytes, layer_bytes, layer_bytes, layer_bytes, 0};
  costs.seconds_saved = {0, 1, 1, 1, 1, 0};
  return costs;
}

TEST(RunPlan, KeptGraphsGetWhatEverythingElseLeavesOfTheDevice) {
  RunPlanInput input{.memory = {10 * kMiB}, .graphs = CostsOf(8 * kMiB)};
  TrainOptions options = Options(400 * kMiB, 400 * kMiB, true);
  const auto roomy = PlanRun(SmallModel(), options, input);
  EXPECT_EQ(roomy->graphs.kept(), 5);
  EXPECT_EQ(roomy->graphs.bytes, 32 * kMiB);
  EXPECT_EQ(roomy->computing_bytes(), roomy->compute_bytes + 32 * kMiB);
  for (uint64_t device = roomy->compute_bytes; device < 60 * kMiB; device += kMiB) {
    options.device_memory_bytes = device;
    const auto plan = PlanRun(SmallModel(), options, input);
    ASSERT_TRUE(plan->swaps.has_value());
    EXPECT_LE(plan->computing_bytes() + plan->swaps->device_arena_bytes, device);
  }
  // State that is told to be there comes first; what has no room for it does not fit, and one
  // that just fits keeps nothing.
  options = Options(0, 400 * kMiB, true);
  options.offload_param = options.offload_optimizer = Offload::kNone;
  const uint64_t least = *SmallestRunBudgets(*PlanRun(SmallModel(), options, input)).device_bytes;
  options.device_memory_bytes = least;
  const auto just = PlanRun(SmallModel(), options, input);
  ASSERT_TRUE(just->swaps.has_value());
  EXPECT_EQ(just->graphs.bytes, 0u);
  options.device_memory_bytes = least + 17 * kMiB;
  EXPECT_EQ(PlanRun(SmallModel(), options, input)->graphs.bytes, 16 * kMiB);
  options.recompute = Recompute::kAll;
  EXPECT_EQ(PlanRun(SmallModel(), options, input)->graphs.kept(), 0);
}

// Of computing: inputs of every unit but the first and the last, with graphs of all.
RunPlanInput LongSequences() {
  RunPlanInput input;
  input.memory.working_bytes = 10 * kMiB;
  input.memory.input_bytes = {0, 4 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB, 0};
  input.memory.in_flight_bytes = 4 * kMiB;
  input.graphs = CostsOf(kMiB);
  return input;
}

TEST(RunPlan, ActivationsThatDoNotFitTheDeviceSpillAndKeepNoGraph) {
  TrainOptions options = Options(400 * kMiB, 400 * kMiB, true);
  const uint64_t least = PlanRun(SmallModel(), options, LongSequences())->compute_bytes;
  int partly = 0, before = 0;
  for (uint64_t device = least; device < least + 20 * kMiB; device += kMiB / 2) {
    options.device_memory_bytes = device;
    const auto plan = PlanRun(SmallModel(), options, LongSequences());
    ASSERT_TRUE(plan.ok() && plan->swaps.has_value()) << device;
    int kept = 0;
    for (int unit = 1; unit < 5; ++unit) {
      const bool on_device = plan->swaps->activations[unit] == Tier::kDevice;
      kept += on_device;
      EXPECT_FALSE(plan->graphs.keeps[unit] && !on_device) << unit << " at " << device;
    }
    EXPECT_GE(kept, before);
    before = kept;
    partly += 0 < kept && kept < 4;
    EXPECT_LE(plan->computing_bytes() + plan->swaps->device_arena_bytes, device);
    EXPECT_GE(plan->computing_bytes(), plan->compute_bytes + kept * 4 * kMiB);
  }
  EXPECT_GT(partly, 10);
  EXPECT_EQ(before, 4);
  options.device_memory_bytes = 400 * kMiB;
  options.offload_activations = Offload::kCpu;
  EXPECT_EQ(PlanRun(SmallModel(), options, LongSequences())->graphs.kept(), 1);  // the first's
}

TEST(RunPlan, TheRefusalNamesBudgetsThatWorkWithSpilledActivationsAndWithout) {
  for (const Offload offload : {Offload::kAuto, Offload::kNone, Offload::kCpu, Offload::kNvme}) {
    for (const auto& [swap, ranks] : {std::pair{true, 1}, {false, 1}, {true, 2}, {false, 2}}) {
      if (!swap && offload == Offload::kNvme) continue;
      SCOPED_TRACE(absl::StrCat(static_cast<int>(offload), " ", swap, " ", ranks));
      TrainOptions options = Options(kMiB, kMiB, swap);
      options.ranks = options.shard_group_size = ranks;
      options.offload_activations = offload;
      const auto refused = PlanRun(SmallModel(), options, LongSequences());
      ASSERT_TRUE(refused.ok());
      ASSERT_FALSE(refused->swaps.has_value());
      const std::string text(RefusalOf(*refused).message());
      EXPECT_EQ(text.find("without --offload-activations none") != std::string::npos,
                offload == Offload::kNone);
      char device[32] = {}, host[32] = {};
      ASSERT_EQ(std::sscanf(text.substr(text.find("at least")).c_str(),
                            "at least --device-memory %31[0-9a-zA-Z] and --host-memory "
                            "%31[0-9a-zA-Z]",
                            device, host),
                2)
          << text;
      options.device_memory_bytes = *ParseSize(device);
      options.host_memory_bytes = *ParseSize(host);
      EXPECT_TRUE(PlanRun(SmallModel(), options, LongSequences())->swaps.has_value()) << text;
      const uint64_t rounded = 2 * kMiB;  // up, to what one writes behind a flag
      options.device_memory_bytes -= rounded;
      EXPECT_FALSE(PlanRun(SmallModel(), options, LongSequences())->swaps.has_value()) << text;
    }
  }
}

TEST(RunPlan, ForecastsLeaveOutWhatIsNotRecomputed) {
  DryRun times;
  times.forward_seconds = times.backward_seconds = {1, 3, 3, 3, 3, 5};
  times.graphs = CostsOf(100);
  GraphPlan graphs;
  graphs.keeps = {true, false, true, false, true, false};
  EXPECT_EQ(WithoutRecompute(times, graphs).backward_seconds,
            (std::vector<double>{1, 3, 2, 3, 2, 5}));
  EXPECT_EQ(WithoutRecompute(times, graphs).forward_seconds, times.forward_seconds);
}

TEST(RunPlan, SumsOfAtMostTwoTermsAreInTheRunsDtype) {
  const auto rounded = [](int64_t accumulate, int64_t loss_chunks, bool separate_device) {
    TrainOptions options = Options(1 << 30, 1 << 30, true);
    options.accumulate = accumulate;
    RunPlanInput input;
    input.memory.working_bytes = 10 * kMiB;
    input.memory.loss_chunks = loss_chunks;
    input.separate_device = separate_device;
    return PlanRun(SmallModel(), options, input)->request.rounded_sums;
  };
  // The last unit is the loss, and adds to the first's, whose own backward comes last.
  EXPECT_EQ(rounded(1, 1, false), std::vector<bool>(6, true));
  EXPECT_EQ(rounded(1, 2, false), std::vector<bool>({false, true, true, true, true, true}));
  EXPECT_EQ(rounded(1, 3, false), std::vector<bool>({false, true, true, true, true, false}));
  EXPECT_EQ(rounded(2, 1, false), std::vector<bool>({false, true, true, true, true, true}));
  EXPECT_EQ(rounded(3, 1, false), std::vector<bool>(6, false));
  EXPECT_TRUE(rounded(1, 1, true).empty());
}

}  // namespace
}  // namespace spillway
