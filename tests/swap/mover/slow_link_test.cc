// What the swap manager tells of a device's time, on one whose link is slow.
#include <chrono>
#include <thread>

#include "gtest/gtest.h"
#include "tests/device/slow_link_device.h"
#include "tests/device/test_device.h"
#include "tests/swap/mover/swap_training.h"

namespace spillway {
namespace {

class SlowLink : public SwapTraining {
 protected:
  // The counters of a few steps of compute that takes `op_seconds` each.
  SwapStats Run(UpdateMode update, const LinkRates& rates, double op_seconds, Trace* trace) {
    const RunShape shape = SmallShape();
    PlanRequest request = RequestFor(shape, update, TierChoice::kHost, 10000000);
    request.separate_device = true;
    request.device_bytes = SmallestBudgets(request)->front().device_bytes;
    TestDevice below({.most_dawdling_us = 0});
    SlowLinkDevice device(&below, rates);
    SwapManagerOptions options;
    options.device = &device;
    options.io.trace = trace;
    auto run = SwapRun::Create(shape, request, directory(), options);
    EXPECT_TRUE(run.ok()) << run.status();
    EXPECT_EQ((*run)->Initialize(), absl::OkStatus());
    SwapManager& manager = (*run)->manager();
    if (trace != nullptr) trace->TurnOn(true);
    for (int step = 1; step <= kSteps; ++step) {
      manager.Enqueue(Program::kTrain);
      UpdateScalars scalars;
      scalars.step = step;
      if (update == UpdateMode::kImmediate) manager.AnnounceUpdate(scalars);
      for (size_t op = 0; op < request.schedule.ops.size(); ++op) {
        const auto buffers = manager.BeginOp();
        EXPECT_TRUE(buffers.ok()) << buffers.status();
        for (size_t i = 0; i < buffers->gradients.size(); ++i) {
          std::fill_n(buffers->gradients[i], shape.units[buffers->op->gradients[i]], 0.0f);
        }
        std::this_thread::sleep_for(std::chrono::duration<double>(op_seconds));
        manager.EndOp();
        ++ops_;
      }
      if (update == UpdateMode::kDeferred) {
        EXPECT_TRUE(manager.AwaitGradients().ok());
        manager.AnnounceUpdate(scalars);
      }
    }
    EXPECT_EQ(manager.Flush(), absl::OkStatus());
    EXPECT_EQ(device.Synchronize(), absl::OkStatus());
    return manager.stats();
  }

  static constexpr int kSteps = 3;
  int ops_ = 0;
};

// What else the machine does makes all of this take longer, never shorter: only that much is said.
TEST_F(SlowLink, CopiesTakeTheirBytesAtTheLinksRate) {
  const LinkRates rates = {4e6, 8e6};
  const SwapStats stats = Run(UpdateMode::kDeferred, rates, 0, nullptr);
  EXPECT_EQ(stats.copies_to_device.bytes, stats.to_device_bytes);
  EXPECT_LE(stats.copies_to_host.bytes, stats.to_host_bytes);
  const double there = rates.SecondsToDevice(stats.copies_to_device.bytes);
  const double back = rates.SecondsToHost(stats.copies_to_host.bytes);
  ASSERT_GT(there, 0.05);
  EXPECT_GE(stats.copies_to_device.seconds, there);
  EXPECT_GE(stats.copies_to_host.seconds, back);
  EXPECT_GE(stats.copy_busy_seconds, std::max(there, back));
  EXPECT_LE(stats.copy_busy_seconds,
            1.001 * (stats.copies_to_device.seconds + stats.copies_to_host.seconds));
  // There is room for two operations at once, so that compute, which takes no time, waits.
  EXPECT_GT(stats.stall_copy_seconds, 0);
}

TEST_F(SlowLink, ComputeIsBusyWhileItsStreamIs) {
  const double op_seconds = 0.01;
  const SwapStats stats = Run(UpdateMode::kImmediate, {}, op_seconds, nullptr);
  EXPECT_GE(stats.compute_busy_seconds, ops_ * op_seconds);
}

TEST_F(SlowLink, ATraceHasOperationsCopiesAndWaitsForThem) {
  Trace trace;
  const SwapStats stats = Run(UpdateMode::kDeferred, {4e6, 8e6}, 0.001, &trace);
  std::vector<Span> spans;
  trace.Take(&spans);
  uint64_t there = 0, back = 0;
  int ops = 0;
  double waited = 0;
  for (const Span& span : spans) {
    EXPECT_LE(span.begin_ns, span.end_ns);
    if (span.kind == SpanKind::kCopyToDevice) there += span.bytes;
    if (span.kind == SpanKind::kCopyToHost) back += span.bytes;
    if (span.kind <= SpanKind::kBackward) ++ops;
    if (span.kind == SpanKind::kWaitCopy) waited += (span.end_ns - span.begin_ns) * 1e-9;
  }
  EXPECT_EQ(there, stats.copies_to_device.bytes);
  EXPECT_EQ(back, stats.copies_to_host.bytes);
  EXPECT_EQ(ops, ops_);
  EXPECT_NEAR(waited, stats.stall_copy_seconds, 1e-6);
}

}  // namespace
}  // namespace spillway
