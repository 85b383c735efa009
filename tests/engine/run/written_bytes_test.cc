#include "engine/run/written_bytes.h"

#include <filesystem>
#include <fstream>

#include "engine/machine/memory_limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "swap/plan/planner.h"

namespace spillway {
namespace {

using testing::HasSubstr;

class WrittenBytesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(output_);
    std::filesystem::create_directories(output_);
  }
  void TearDown() override { std::filesystem::remove_all(output_); }

  const std::string output_ = testing::TempDir() + "/written-bytes";
};

TEST_F(WrittenBytesTest, GoesOnWhereTheProcessBeforeEnded) {
  EXPECT_EQ(*WrittenBytes::Read(output_), 0u);
  auto first = WrittenBytes::Open(output_, 0);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ((*first)->Set(1000, 500), absl::OkStatus());
  EXPECT_EQ((*first)->total(), 1000u);
  // Killed now: what was expected counts as written.
  EXPECT_EQ(*WrittenBytes::Read(output_), 1500u);
  ASSERT_EQ((*first)->Set(1200), absl::OkStatus());
  first->reset();
  auto second = WrittenBytes::Open(output_, *WrittenBytes::Read(output_));
  ASSERT_TRUE(second.ok());
  ASSERT_EQ((*second)->Set(300), absl::OkStatus());
  EXPECT_EQ((*second)->total(), 1500u);
  EXPECT_EQ(*WrittenBytes::Read(output_), 1500u);
}

TEST_F(WrittenBytesTest, ARunWithoutACountHasThatOfItsSteps) {
  std::ofstream(output_ + "/metrics.jsonl")
      << "{\"step\":1,\"bytes\":{\"nvme_written\":100}}\n{\"step\":2}\n"
         "{\"step\":3,\"bytes\":{\"nvme_written\":20}}\n";
  EXPECT_EQ(*WrittenBytes::Read(output_), 120u);
}

// A process killed between making the file and writing to it.
TEST_F(WrittenBytesTest, AnEmptyCountIsNone) {
  std::ofstream(output_ + "/metrics.jsonl") << "{\"step\":1,\"bytes\":{\"nvme_written\":100}}\n";
  std::ofstream(output_ + "/bytes-written").close();
  EXPECT_EQ(*WrittenBytes::Read(output_), 100u);
}

TEST_F(WrittenBytesTest, WhatIsNoCountIsNamed) {
  std::ofstream(output_ + "/bytes-written") << "many";
  const auto read = WrittenBytes::Read(output_);
  EXPECT_EQ(ExitCodeOf(read.status()), 2);
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("bytes-written"));
  std::filesystem::remove(output_ + "/bytes-written");
  std::filesystem::create_symlink(output_ + "/elsewhere", output_ + "/bytes-written");
  EXPECT_FALSE(WrittenBytes::Open(output_, 0).ok());
  EXPECT_FALSE(std::filesystem::exists(output_ + "/elsewhere"));
}

// With more on top they would begin again at 0, below any limit.
TEST_F(WrittenBytesTest, MoreThanAnyDriveTakesIsNoCount) {
  for (const char* count : {"18446744073709551615\n", "9223372036854775808\n"}) {
    std::ofstream(output_ + "/bytes-written") << count;
    EXPECT_EQ(ExitCodeOf(WrittenBytes::Read(output_).status()), 2) << count;
  }
  std::filesystem::remove(output_ + "/bytes-written");
  std::ofstream(output_ + "/metrics.jsonl")
      << "{\"step\":1,\"bytes\":{\"nvme_written\":18446744073709551615}}\n"
         "{\"step\":2,\"bytes\":{\"nvme_written\":2}}\n";
  EXPECT_EQ(ExitCodeOf(WrittenBytes::Read(output_).status()), 2);
}

TEST(WriteLimit, StopsBeforeTheStepThatWouldPassIt) {
  WritePlan plan{.initial_bytes = 0, .step_bytes = 100, .end_bytes = 30};
  EXPECT_FALSE(StepWouldPass(0, 1 << 30, plan));  // none
  EXPECT_FALSE(StepWouldPass(1000, 870, plan));
  EXPECT_TRUE(StepWouldPass(1000, 871, plan));
  plan.commits_between = true;
  EXPECT_FALSE(StepWouldPass(1000, 840, plan));
  EXPECT_TRUE(StepWouldPass(1000, 841, plan));
}

TEST(WriteLimit, OneThatAllowsNoStepIsRefusedWithTheSmallestThatDoes) {
  WritePlan plan{.initial_bytes = 50 << 20, .step_bytes = 40 << 20, .end_bytes = 10 << 20};
  EXPECT_EQ(CheckWriteLimit(0, 1 << 30, plan), absl::OkStatus());
  EXPECT_EQ(CheckWriteLimit(100 << 20, 0, plan), absl::OkStatus());
  const absl::Status status = CheckWriteLimit((100 << 20) - 1, 0, plan);
  EXPECT_EQ(ExitCodeOf(status), 3);
  EXPECT_THAT(std::string(status.message()), HasSubstr("at least 100MiB"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("50 MiB of first state"));
  plan.initial_bytes = 0;
  EXPECT_THAT(std::string(CheckWriteLimit(100 << 20, 70 << 20, plan).message()),
              testing::AllOf(HasSubstr("70 MiB written by this run"), HasSubstr("120MiB")));
}

TEST(WriteLimit, ThePlanSaysWhatARunWrites) {
  PlanRequest request;
  request.layout = StateLayout({{"u0", 4096}, {"u1", 2048}},
                               {{Plane::kWeight, 4}, {Plane::kMomentum, 4}}, 4, 2048);
  request.schedule = BuildTrainSchedule({{{}, {}}}, UpdateMode::kImmediate);
  request.weights = request.optimizer = TierChoice::kNvme;
  request.has_storage = true;
  request.host_bytes = request.device_bytes = 64 << 20;
  auto plan = PlanSwaps(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  WritePlan writes = PlanWrites(*plan, /*fresh=*/true, /*commits=*/true);
  EXPECT_EQ(writes.initial_bytes, 6144u * 8);
  EXPECT_EQ(writes.step_bytes, plan->traffic.written_bytes);
  EXPECT_EQ(writes.end_bytes, writes.step_bytes);
  EXPECT_EQ(PlanWrites(*plan, false, true).initial_bytes, 0u);
  // In memory: nothing but commits writes.
  request.weights = request.optimizer = TierChoice::kHost;
  plan = PlanSwaps(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  writes = PlanWrites(*plan, true, true);
  EXPECT_EQ(writes.initial_bytes + writes.step_bytes, 0u);
  EXPECT_EQ(writes.end_bytes, 6144u * 8);
  EXPECT_EQ(PlanWrites(*plan, true, false).end_bytes, 0u);
}

TEST(WriteLimit, WhatIsReadInPlaceIsNotWritten) {
  PlanRequest request;
  request.layout =
      StateLayout({{"u0", 4096}, {"u1", 2048, /*frozen=*/true}, {"u2", 2048, /*frozen=*/true}},
                  {{Plane::kWeight, 4}, {Plane::kMomentum, 4}}, 4, 2048);
  ScheduleModel model{{{}, {}, {}}, {true, false, false}};
  request.schedule = BuildTrainSchedule(model, UpdateMode::kImmediate);
  request.host_bytes = request.device_bytes = 64 << 20;
  request.has_storage = true;
  InPlaceUnits in_place;
  in_place.files = {{"/m", 1 << 20}};
  in_place.units = {{}, {{0, 9, 2048 * 4, 0, "t"}}};
  for (const TierChoice tier : {TierChoice::kNvme, TierChoice::kHost}) {
    request.weights = request.optimizer = tier;
    const auto plan = PlanSwaps(request);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const uint64_t all = PlanWrites(*plan, true, true).initial_bytes;
    EXPECT_EQ(PlanWrites(*plan, true, true, in_place).initial_bytes, all - 2048 * 4);
    EXPECT_EQ(PlanWrites(*plan, false, true, in_place).initial_bytes, 0u);
  }
}

}  // namespace
}  // namespace spillway
