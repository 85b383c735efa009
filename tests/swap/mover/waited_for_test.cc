#include "swap/mover/waited_for.h"

#include "gtest/gtest.h"

namespace spillway {
namespace {

TEST(WaitedFor, IsWhatWasBusyMeanwhile) {
  EXPECT_EQ(WaitedFor(10, {}), SpanKind::kWaitDisk);
  EXPECT_EQ(WaitedFor(10, {.disk = 9, .workers = 6}), SpanKind::kWaitUpdate);
  EXPECT_EQ(WaitedFor(10, {.disk = 9, .workers = 4}), SpanKind::kWaitDisk);
  EXPECT_EQ(WaitedFor(10, {.device_update = 7}), SpanKind::kWaitUpdate);
  EXPECT_EQ(WaitedFor(10, {.copy = 7}), SpanKind::kWaitCopy);
}

// An update that is streamed through a device is copied there and back meanwhile.
TEST(WaitedFor, OfTwoThingsTheOneThatTookLonger) {
  EXPECT_EQ(WaitedFor(10, {.device_update = 7, .copy = 9}), SpanKind::kWaitCopy);
  EXPECT_EQ(WaitedFor(10, {.device_update = 9, .copy = 7}), SpanKind::kWaitUpdate);
  EXPECT_EQ(WaitedFor(10, {.disk = 9, .device_update = 7, .copy = 6}), SpanKind::kWaitDisk);
  EXPECT_EQ(WaitedFor(10, {.disk = 8, .copy = 9}), SpanKind::kWaitCopy);
  EXPECT_EQ(WaitedFor(10, {.device_update = 4, .copy = 3}), SpanKind::kWaitDisk);
}

}  // namespace
}  // namespace spillway
