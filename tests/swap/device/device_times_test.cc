#include "swap/device/device_times.h"

#include <vector>

#include "gtest/gtest.h"

namespace spillway {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr SpanKind kThere = SpanKind::kCopyToDevice, kBack = SpanKind::kCopyToHost;

TEST(DeviceTimes, CopiesCountEachWayAndTogether) {
  DeviceTimes times(nullptr);
  times.CopyBegins(kThere, 1 * kSecond);
  times.CopyBegins(kBack, 2 * kSecond);
  times.CopyEnds(kThere, 0, 100, 4 * kSecond);
  times.CopyEnds(kBack, 0, 50, 5 * kSecond);
  times.CopyBegins(kThere, 7 * kSecond);
  times.CopyEnds(kThere, 0, 10, 8 * kSecond);
  const DeviceSeconds seconds = times.At(20 * kSecond);
  EXPECT_EQ(seconds.to_device.bytes, 110u);
  EXPECT_DOUBLE_EQ(seconds.to_device.seconds, 3 + 1);
  EXPECT_EQ(seconds.to_host.bytes, 50u);
  EXPECT_DOUBLE_EQ(seconds.to_host.seconds, 3);
  EXPECT_DOUBLE_EQ(seconds.copying, 4 + 1);
}

TEST(DeviceTimes, WhatIsUnderWayCountsUpToNow) {
  DeviceTimes times(nullptr);
  times.CopyBegins(kThere, 1 * kSecond);
  times.OpComes({}, 1 * kSecond);
  times.OpBegins(2 * kSecond);
  const DeviceSeconds seconds = times.At(5 * kSecond);
  EXPECT_DOUBLE_EQ(seconds.to_device.seconds, 4);
  EXPECT_DOUBLE_EQ(seconds.copying, 4);
  EXPECT_DOUBLE_EQ(seconds.computing, 3);
  EXPECT_EQ(seconds.to_device.bytes, 0u);
}

// Two threads tell the time, each in its own order.
TEST(DeviceTimes, NotesOfTwoStreamsMayComeALittleOutOfOrder) {
  DeviceTimes times(nullptr);
  times.CopyBegins(kThere, 1 * kSecond);
  times.CopyEnds(kThere, 0, 1, 3 * kSecond);
  times.CopyBegins(kBack, 2 * kSecond);
  times.CopyEnds(kBack, 0, 1, 4 * kSecond);
  const DeviceSeconds seconds = times.At(4 * kSecond);
  EXPECT_DOUBLE_EQ(seconds.to_host.seconds, 2);
  EXPECT_DOUBLE_EQ(seconds.copying, 3);
}

TEST(DeviceTimes, ComputeIsFromBehindWhatItWaitedForToItsEnd) {
  DeviceTimes times(nullptr);
  DeviceTimes::Grant grant;
  grant.wait_began_ns = 0;
  grant.granted_ns = 2 * kSecond;
  grant.waited_for = SpanKind::kWaitUpdate;
  times.OpComes(grant, 2 * kSecond);
  times.OpBegins(5 * kSecond);  // copies came until then
  times.OpEnds(9 * kSecond);
  DeviceSeconds seconds = times.At(9 * kSecond);
  EXPECT_DOUBLE_EQ(seconds.stalled_update, 2);
  EXPECT_DOUBLE_EQ(seconds.stalled_copy, 3);
  EXPECT_DOUBLE_EQ(seconds.computing, 4);
  // The host waited for the disk while this was computed, and one second more.
  grant.wait_began_ns = 4 * kSecond;
  grant.granted_ns = 10 * kSecond;
  grant.waited_for = SpanKind::kWaitDisk;
  times.OpComes(grant, 10 * kSecond);
  times.OpBegins(10 * kSecond);
  times.OpEnds(11 * kSecond);
  // This one had been granted long before it came to be computed.
  grant.wait_began_ns = 10 * kSecond;
  grant.granted_ns = 10 * kSecond + 1;
  times.OpComes(grant, 11 * kSecond);
  times.OpBegins(11 * kSecond);
  times.OpEnds(12 * kSecond);
  seconds = times.At(20 * kSecond);
  EXPECT_DOUBLE_EQ(seconds.stalled_disk, 1);
  EXPECT_DOUBLE_EQ(seconds.stalled_copy, 3);
  EXPECT_DOUBLE_EQ(seconds.computing, 4 + 1 + 1);
  EXPECT_DOUBLE_EQ(seconds.stalled_commit, 0);
}

TEST(DeviceTimes, UpdatesCountByThemselvesAndUpToNow) {
  DeviceTimes times(nullptr);
  times.UpdateBegins(1 * kSecond);
  times.UpdateEnds(0, 0, 3 * kSecond);
  times.UpdateBegins(5 * kSecond);
  EXPECT_DOUBLE_EQ(times.At(6 * kSecond).updating, 2 + 1);
  times.UpdateEnds(0, 1, 9 * kSecond);
  EXPECT_DOUBLE_EQ(times.At(20 * kSecond).updating, 2 + 4);
  EXPECT_DOUBLE_EQ(times.At(20 * kSecond).copying, 0);
}

// Weights that an update there makes come from that, and not over the link.
TEST(DeviceTimes, WhatAnOperationWaitedForThereIsTheLongerOfUpdatesAndCopies) {
  for (const bool updates : {false, true}) {
    Trace trace;
    trace.TurnOn(true);
    DeviceTimes times(&trace);
    times.UpdateBegins(1 * kSecond);
    times.OpComes({}, 2 * kSecond);
    times.UpdateEnds(0, 0, updates ? 8 * kSecond : 3 * kSecond);
    times.CopyBegins(kBack, 6 * kSecond);
    times.OpBegins(10 * kSecond);
    const DeviceSeconds seconds = times.At(10 * kSecond);
    EXPECT_DOUBLE_EQ(seconds.stalled_update, updates ? 8 : 0);
    EXPECT_DOUBLE_EQ(seconds.stalled_copy, updates ? 0 : 8);
    std::vector<Span> spans;
    trace.Take(&spans);
    ASSERT_EQ(spans.size(), 2u);
    EXPECT_EQ(spans[0].kind, SpanKind::kDeviceUpdate);
    EXPECT_EQ(spans[1].kind, updates ? SpanKind::kWaitUpdate : SpanKind::kWaitCopy);
  }
}

TEST(DeviceTimes, ATraceHasEachCopyOperationAndWait) {
  Trace trace;
  trace.TurnOn(true);
  DeviceTimes times(&trace);
  times.CopyBegins(kBack, 1);
  times.CopyEnds(kBack, 7, 100, 5);
  DeviceTimes::Grant grant;
  grant.op = SpanKind::kBackward;
  grant.unit = 3;
  grant.wait_began_ns = 10;
  grant.granted_ns = 12;
  grant.waited_for = SpanKind::kWaitCommit;
  times.OpComes(grant, 12);
  times.OpBegins(20);
  times.OpEnds(30);
  std::vector<Span> spans;
  trace.Take(&spans);
  ASSERT_EQ(spans.size(), 4u);
  const auto expect = [&](int i, SpanKind kind, int unit, int64_t begin, int64_t end) {
    EXPECT_EQ(spans[i].kind, kind) << i;
    EXPECT_EQ(spans[i].unit, unit) << i;
    EXPECT_EQ(spans[i].begin_ns, begin) << i;
    EXPECT_EQ(spans[i].end_ns, end) << i;
  };
  expect(0, kBack, 7, 1, 5);
  EXPECT_EQ(spans[0].bytes, 100u);
  expect(1, SpanKind::kWaitCommit, 3, 10, 12);
  expect(2, SpanKind::kWaitCopy, 3, 12, 20);
  EXPECT_EQ(spans[2].detail, static_cast<uint8_t>(SpanKind::kBackward));
  expect(3, SpanKind::kBackward, 3, 20, 30);
}

}  // namespace
}  // namespace spillway
