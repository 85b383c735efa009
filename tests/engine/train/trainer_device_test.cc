// A trainer on a device with memory of its own: what its rows tell of the link.
#include <algorithm>
#include <ctime>

#include "engine/estimate/profile_file.h"
#include "engine/report/step_timeline.h"
#include "engine/run/metrics_log.h"
#include "gmock/gmock.h"
#include "tests/device/slow_link_device.h"
#include "tests/device/test_device.h"
#include "tests/engine/train/trainer_testing.h"

namespace spillway {
namespace {

class TrainerOnDevice : public TrainerTest {
 protected:
  TrainOptions OnLink(double clip) const {
    TrainOptions options = Options(absl::StrCat("clip", clip));
    options.offload_param = options.offload_optimizer = Offload::kCpu;
    options.clip = clip;
    options.steps = 5;
    return options;
  }
  std::vector<nlohmann::json> Rows(const TrainOptions& options) const {
    std::vector<nlohmann::json> rows;
    EXPECT_TRUE(
        ReadRows(options.output + "/metrics.jsonl", [&](const nlohmann::json& row, int64_t) {
          rows.push_back(row);
        }).ok());
    return rows;
  }
};

TEST_F(TrainerOnDevice, ASlowLinkIsWhatAStepWaitsForAndIsBusyWith) {
  for (double clip : {0.0, 1.0}) {
    SCOPED_TRACE(clip);
    TestDevice below({.most_dawdling_us = 0});
    SlowLinkDevice device(&below, {1e6, 1e6});
    separate_ = &device;
    const TrainOptions options = OnLink(clip);
    TrainResult result;
    ASSERT_TRUE(Train(options, &result).ok());
    uint64_t bytes = 0;
    double busy = 0, waited = 0;
    for (const nlohmann::json& row : Rows(options)) {
      bytes += row["bytes"]["to_device"].get<uint64_t>();
      busy += row["busy_seconds"]["copy"].get<double>();
      waited += row["stall_seconds"]["copy"].get<double>();
    }
    ASSERT_GT(bytes, 50'000u);
    EXPECT_GE(busy, bytes / 1e6);
    EXPECT_GT(waited, 0);
    EXPECT_THAT(result.speed, testing::HasSubstr(", GPU copies "));
    const auto timeline = ReadTimeline(options.output);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    std::vector<std::string> rows;
    for (const TimelineRow& row : timeline->resources) rows.push_back(row.name);
    EXPECT_THAT(rows, testing::IsSupersetOf({"copy to device", "copy to host"}));
    ASSERT_FALSE(timeline->waits.empty());
    // The end of the operation before may reach over the step's beginning.
    EXPECT_GE(timeline->ops.size(), 2 * model_.units.size() - 1);
    EXPECT_LE(timeline->ops.size(), 2 * model_.units.size());
  }
}

TEST_F(TrainerOnDevice, ComputeIsBusyForAsLongAsItsOperationsTake) {
  op_milliseconds_ = 20;
  TestDevice below({.most_dawdling_us = 0});
  SlowLinkDevice device(&below, {1e9, 1e9});
  separate_ = &device;
  const TrainOptions options = OnLink(0);
  TrainResult result;
  ASSERT_TRUE(Train(options, &result).ok());
  double computed = 0;
  for (const nlohmann::json& row : Rows(options)) {
    computed += row["busy_seconds"]["compute"].get<double>();
  }
  EXPECT_GE(computed, 5 * 7 * 0.02);
}

// What the device itself does in an update is busy time, and waited for, like a worker's.
TEST_F(TrainerOnDevice, ADeviceThatUpdatesSlowlyIsWhatAStepWaitsForAndIsBusyWith) {
  for (double clip : {0.0, 1.0}) {
    SCOPED_TRACE(clip);
    TestDevice below({.most_dawdling_us = 0});
    SlowLinkDevice device(&below, {});
    device.SetKernelsTake(300);
    separate_ = &device;
    TrainOptions options = OnLink(clip);
    options.update_device = UpdateDevice::kGpu;
    TrainResult result;
    ASSERT_TRUE(Train(options, &result).ok());
    double busy = 0, waited = 0;
    for (const nlohmann::json& row : Rows(options)) {
      busy += row["busy_seconds"]["update"].get<double>();
      waited += row["stall_seconds"]["update"].get<double>();
    }
    EXPECT_GT(busy, 0);
    EXPECT_GT(waited, 0);
    EXPECT_THAT(result.speed, testing::HasSubstr(", updates on the GPU "));
    const auto timeline = ReadTimeline(options.output);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    std::vector<std::string> rows;
    for (const TimelineRow& row : timeline->resources) rows.push_back(row.name);
    EXPECT_THAT(rows, testing::Contains("device update"));
  }
}

// The device has no kernels for what measures tensors first: the host does, wherever weights live.
TEST_F(TrainerOnDevice, OptimizersThatMeasureFirstUpdateOnTheHostToTheSameBits) {
  using Kind = OptimizerSpec::Kind;
  uint64_t seed = 0;
  for (const auto& [kind, scales] :
       {std::pair{Kind::kLamb, false}, {Kind::kAdafactor, false}, {Kind::kAdafactor, true}}) {
    SCOPED_TRACE(testing::Message() << OptimizerName(kind) << " " << scales);
    TrainOptions options = Options(absl::StrCat("plain", seed));
    options.optimizer.kind = kind;
    options.optimizer.scale_parameter = scales;
    options.steps = 5;
    options.offload_param = options.offload_optimizer = Offload::kCpu;
    TrainResult result;
    separate_ = nullptr;
    const auto expected = Train(options, &result);
    ASSERT_TRUE(expected.ok()) << expected.status();

    options.swap_paths = {folder_ + "/a"};
    for (const auto& [weights, optimizer] : {std::pair{Offload::kCpu, Offload::kCpu},
                                             {Offload::kNone, Offload::kCpu},
                                             {Offload::kNone, Offload::kNvme},
                                             {Offload::kNvme, Offload::kNvme},
                                             {Offload::kAuto, Offload::kAuto}}) {
      SCOPED_TRACE(testing::Message() << "weights " << int(weights) << " state " << int(optimizer));
      options.output = absl::StrCat(folder_, "/", ++seed);
      options.offload_param = weights;
      options.offload_optimizer = optimizer;
      TestDevice device({.seed = seed});
      separate_ = &device;
      const auto found = Train(options, &result);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(*found, *expected);
      EXPECT_GT(device.copies(), 0);
      EXPECT_EQ(result.residency.optimizer[static_cast<int>(Tier::kDevice)], 0u);
    }
  }
}

// With the rates that it measures, of a link that is known: nobody says who updates.
class WhoUpdates : public TrainerOnDevice {
 protected:
  void SetUp() override {
    TrainerOnDevice::SetUp();
    // Large enough that an update is longer than the notes that time it.
    model_.units.clear();
    for (int i = 0; i < 4; ++i) {
      UnitDescription unit;
      unit.name = absl::StrCat("u", i);
      unit.parameters.push_back({absl::StrCat("u", i, ".weight"), {300 + i, 1000}});
      model_.units.push_back(unit);
    }
    ASSERT_EQ(LayOutParameters(model_), absl::OkStatus());
    profile_ = folder_ + "/profile.json";
    setenv("SPILLWAY_PROFILE", profile_.c_str(), 1);
  }
  void TearDown() override {
    setenv("SPILLWAY_PROFILE", "off", 1);
    TrainerOnDevice::TearDown();
  }

  // Of the units, how many the plan streams; then trains, on a device as fast as it is.
  int64_t Streamed(const LinkRates& link, double kernels_take, nlohmann::json* digests) {
    TestDevice below({.most_dawdling_us = 0});
    SlowLinkDevice device(&below, {});
    MachineProfile known;
    known.SetLink(device.name(), {link, time(nullptr)});
    EXPECT_EQ(SaveProfile(profile_, ThisMachine(), known), absl::OkStatus());
    TrainOptions options = OnLink(1);
    options.output = absl::StrCat(folder_, "/out", ++outputs_);
    options.steps = 3;
    options.tile_parameters = 1 << 19;
    auto storage = RunStorage::Open(options);
    EXPECT_TRUE(storage.ok()) << storage.status();
    StubCompute compute(model_, options.dtype);
    MemoryBudget budget("device", options.device_memory_bytes);
    StopSignal signals;
    int64_t streamed = -1;
    {
      device.SetKernelsTake(kernels_take);
      auto trainer = Trainer::Create({options, model_, storage->get(), &compute, &budget, &device});
      EXPECT_TRUE(trainer.ok()) << trainer.status();
      device.SetKernelsTake(1);
      const auto& streams = (*trainer)->plan().streams_update;
      streamed = std::count(streams.begin(), streams.end(), true);
      CountingWeights weights;
      EXPECT_EQ((*trainer)->Start(&weights), absl::OkStatus());
      const auto run = (*trainer)->Run();
      EXPECT_TRUE(run.ok()) << run.status();
      EXPECT_TRUE(run->predicted_seconds.has_value());
    }
    const auto run = InspectRun(options.output);
    EXPECT_TRUE(run.ok()) << run.status();
    if (run.ok()) *digests = (*run)["digests"];
    return streamed;
  }

  std::string profile_;
  int outputs_ = 0;
};

TEST_F(WhoUpdates, IsWhoTheMeasuredRatesSayIsFaster) {
  // Far slower or faster than the processor, however busy that is while it is measured.
  nlohmann::json fast, slow_device, slow_link;
  EXPECT_EQ(Streamed({1e12, 1e12}, /*kernels_take=*/0, &fast), 4);
  EXPECT_EQ(Streamed({1e12, 1e12}, /*kernels_take=*/100, &slow_device), 0);
  EXPECT_EQ(Streamed({1e6, 1e6}, /*kernels_take=*/0, &slow_link), 0);
  EXPECT_EQ(fast, slow_device);
  EXPECT_EQ(fast, slow_link);
}

// The forecast counts on the device's rate, and so does what was busy with what binds.
TEST_F(WhoUpdates, ADeviceThatBindsIsBusyWithWhatBinds) {
  TestDevice below({.most_dawdling_us = 0});
  SlowLinkDevice device(&below, {});
  device.SetKernelsTake(40);
  separate_ = &device;
  TrainOptions options = OnLink(1);
  options.tile_parameters = 1 << 19;
  options.update_device = UpdateDevice::kGpu;
  TrainResult result;
  ASSERT_TRUE(Train(options, &result).ok());
  EXPECT_EQ(result.binding, "update");
  double updated = 0, binding = 0;
  for (const nlohmann::json& row : Rows(options)) {
    updated += row["busy_seconds"]["update"].get<double>();
    binding += row["binding_seconds"].get<double>();
  }
  EXPECT_GT(updated, 0);
  EXPECT_GT(binding, 0);
}

// Without a separate device nothing of this is told.
TEST_F(TrainerOnDevice, InTheHostsMemoryNothingIsCopied) {
  const TrainOptions options = OnLink(1);
  TrainResult result;
  ASSERT_TRUE(Train(options, &result).ok());
  for (const nlohmann::json& row : Rows(options)) {
    EXPECT_EQ(row["busy_seconds"]["copy"], 0.0);
    EXPECT_EQ(row["stall_seconds"]["copy"], 0.0);
    EXPECT_GT(row["busy_seconds"]["compute"].get<double>(), 0);
  }
  EXPECT_THAT(result.speed, testing::Not(testing::HasSubstr("copy")));
}

}  // namespace
}  // namespace spillway
