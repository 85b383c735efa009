// A trainer on a device with memory of its own: what its rows tell of the link.
#include "engine/metrics.h"
#include "engine/report/step_timeline.h"
#include "gmock/gmock.h"
#include "tests/device/slow_link_device.h"
#include "tests/device/test_device.h"
#include "tests/engine/trainer_testing.h"

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
    double seconds = 0, busy = 0, waited = 0, others = 0;
    for (const nlohmann::json& row : Rows(options)) {
      bytes += row["bytes"]["to_device"].get<uint64_t>();
      seconds += row["seconds"].get<double>();
      busy += row["busy_seconds"]["copy"].get<double>();
      waited += row["stall_seconds"]["copy"].get<double>();
      others += row["stall_seconds"]["disk"].get<double>();
      others += row["stall_seconds"]["update"].get<double>();
    }
    ASSERT_GT(bytes, 50'000u);
    EXPECT_GE(busy, bytes / 1e6);
    EXPECT_LE(busy, 1.01 * seconds);
    EXPECT_GT(waited, 0.4 * seconds);
    EXPECT_GT(waited, 2 * others);
    EXPECT_THAT(result.speed, testing::HasSubstr(", copy "));
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

TEST_F(TrainerOnDevice, ComputeThatHidesTheLinkIsBusyAndWaitsForLittle) {
  op_milliseconds_ = 20;
  TestDevice below({.most_dawdling_us = 0});
  SlowLinkDevice device(&below, {1e9, 1e9});
  separate_ = &device;
  const TrainOptions options = OnLink(0);
  TrainResult result;
  ASSERT_TRUE(Train(options, &result).ok());
  double seconds = 0, computed = 0, waited = 0;
  for (const nlohmann::json& row : Rows(options)) {
    seconds += row["seconds"].get<double>();
    computed += row["busy_seconds"]["compute"].get<double>();
    for (const auto& [reason, stall] : row["stall_seconds"].items()) waited += stall.get<double>();
  }
  EXPECT_GE(computed, 5 * 7 * 0.02);
  EXPECT_GT(computed, 0.6 * seconds);
  EXPECT_LE(computed + waited, 1.01 * seconds);
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
