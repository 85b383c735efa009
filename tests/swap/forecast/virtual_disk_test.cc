#include "swap/forecast/virtual_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <vector>

namespace spillway {
namespace {

struct TimedDisk {
  explicit TimedDisk(const StepClock& clock) : machine(clock), disk(&machine) {}

  void Submit(IoOp op, IoClass io_class, uint64_t bytes) {
    IoRequest& request = requests.emplace_back();
    request.op = op;
    request.io_class = io_class;
    request.size_bytes = bytes;
    request.tile = static_cast<int>(requests.size()) - 1;
    request.context = this;
    request.done = [](IoRequest& request, const absl::Status& status) {
      auto& self = *static_cast<TimedDisk*>(request.context);
      EXPECT_TRUE(status.ok());
      self.order.push_back(request.tile);
      self.ends.push_back(self.machine.seconds().now);
    };
    disk.Submit(&request);
  }
  void Drain() {
    while (disk.pending() > 0) disk.Poll(absl::ZeroDuration());
  }

  VirtualMachine machine;
  VirtualDisk disk;
  std::list<IoRequest> requests;
  std::vector<int> order;
  std::vector<double> ends;
};

StepClock DiskClock() {
  StepClock clock;
  clock.disk = {1 << 20, 1 << 20, 1 << 20};
  return clock;
}

TEST(VirtualDisk, WhatIsNeededFirstGoesFirstAndElseWhatCameFirst) {
  const StepClock clock = DiskClock();
  TimedDisk timed(clock);
  timed.Submit(IoOp::kRead, IoClass::kWriteBack, 1 << 20);  // under way at once
  timed.Submit(IoOp::kRead, IoClass::kWriteBack, 1 << 20);
  timed.Submit(IoOp::kRead, IoClass::kPrefetch, 1 << 20);
  timed.Submit(IoOp::kRead, IoClass::kPrefetch, 1 << 20);
  timed.Submit(IoOp::kRead, IoClass::kDemand, 1 << 20);
  timed.Drain();
  EXPECT_THAT(timed.order, testing::ElementsAre(0, 4, 2, 3, 1));
  EXPECT_DOUBLE_EQ(timed.ends.back(), 5);
}

// As many of both at once; and behind reads that fill the queue, a seventeenth.
TEST(VirtualDisk, ReadsAndWritesShareItByWhatIsInFlight) {
  const StepClock clock = DiskClock();
  TimedDisk alike(clock);
  alike.Submit(IoOp::kRead, IoClass::kWriteBack, 8 << 20);
  alike.Submit(IoOp::kWrite, IoClass::kWriteBack, 8 << 20);
  alike.Drain();
  EXPECT_DOUBLE_EQ(alike.ends[0], 16);
  TimedDisk behind(clock);
  behind.Submit(IoOp::kWrite, IoClass::kWriteBack, 64 << 20);
  behind.Submit(IoOp::kRead, IoClass::kPrefetch, 64 << 20);
  behind.Drain();
  EXPECT_THAT(behind.order, testing::ElementsAre(1, 0));
  EXPECT_NEAR(behind.ends[0], 64 * 17.0 / 16, 1e-6);
  EXPECT_NEAR(behind.ends[1], 128, 1e-6);
}

TEST(VirtualDisk, WhoeverWakesItLetsNoTimePass) {
  const StepClock clock = DiskClock();
  TimedDisk timed(clock);
  timed.Submit(IoOp::kRead, IoClass::kDemand, 1 << 20);
  timed.disk.Wake();
  EXPECT_EQ(timed.disk.Poll(absl::ZeroDuration()), 0u);
  EXPECT_EQ(timed.machine.seconds().now, 0);
  EXPECT_EQ(timed.disk.Poll(absl::ZeroDuration()), 1u);
}

}  // namespace
}  // namespace spillway
