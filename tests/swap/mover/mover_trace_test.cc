// What a swap manager tells a trace: every tile, transfer and wait of a step, once.
#include <map>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "swap/mover/swap_manager.h"
#include "tests/swap/mover/swap_run.h"

namespace spillway {
namespace {

TEST(MoverTrace, AStepOnDiskIsWholeInTheTrace) {
  RunShape shape;
  shape.units = {3 * 2048, 2048, 2 * 2048};
  shape.borrows = {{}, {}, {0}};
  PlanRequest request;
  request.layout = LayoutOf(shape);
  request.schedule = ScheduleOf(shape, UpdateMode::kDeferred);
  request.host_bytes = request.device_bytes = 64 << 20;
  request.weights = request.optimizer = TierChoice::kNvme;
  request.has_storage = true;
  Trace trace;
  SwapManagerOptions options;
  options.io.trace = &trace;
  options.io.announce = false;
  auto run = SwapRun::Create(shape, request, testing::TempDir() + "/mover-trace", options);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
  std::vector<Span> spans;
  trace.Take(&spans);
  EXPECT_TRUE(spans.empty());  // it is off

  trace.TurnOn(true);
  Oracle oracle(shape);
  SwapManager& manager = (*run)->manager();
  const SwapStats before = manager.stats();
  const int ops = static_cast<int>(manager.plan().schedule.ops.size());
  manager.Enqueue(Program::kTrain);
  ASSERT_EQ((*run)->RunOps(ops, true, oracle), absl::OkStatus());
  ASSERT_TRUE(manager.AwaitGradients().ok());
  UpdateScalars scalars;
  scalars.step = 1;
  manager.AnnounceUpdate(scalars);
  ASSERT_EQ(manager.Flush(), absl::OkStatus());
  const SwapStats after = manager.stats();
  trace.Take(&spans);

  std::map<SpanKind, std::set<std::pair<int, int>>> tiles;
  std::map<SpanKind, int> count;
  std::map<SpanKind, uint64_t> bytes;
  double worker_seconds = 0, waited = 0;
  for (const Span& span : spans) {
    EXPECT_LE(span.begin_ns, span.end_ns);
    ++count[span.kind];
    bytes[span.kind] += span.bytes;
    if (span.kind <= SpanKind::kFill) {
      EXPECT_TRUE(span.kind == SpanKind::kCheck ||
                  tiles[span.kind].insert({span.unit, span.tile}).second)
          << SpanKindName(span.kind) << " " << span.unit << " " << span.tile;
      worker_seconds += 1e-9 * static_cast<double>(span.end_ns - span.begin_ns);
    }
    if (span.kind >= SpanKind::kWaitDisk && span.kind <= SpanKind::kWaitCommit) {
      waited += 1e-9 * static_cast<double>(span.end_ns - span.begin_ns);
    }
    if (span.kind == SpanKind::kRead || span.kind == SpanKind::kWrite) {
      EXPECT_GE(span.unit, 0);
      EXPECT_GE(span.tile, 0);
    }
  }
  EXPECT_EQ(tiles[SpanKind::kRound].size(), 6u);
  EXPECT_EQ(tiles[SpanKind::kUpdate].size(), 6u);
  EXPECT_GE(count[SpanKind::kCheck], 6);  // every tile was fetched
  EXPECT_EQ(bytes[SpanKind::kRead], after.io.read_bytes - before.io.read_bytes);
  EXPECT_EQ(bytes[SpanKind::kWrite], after.io.written_bytes - before.io.written_bytes);
  EXPECT_EQ(
      count[SpanKind::kWaitDisk] + count[SpanKind::kWaitUpdate] + count[SpanKind::kWaitCommit],
      ops);
  const double stalled = after.stall_disk_seconds + after.stall_update_seconds;
  EXPECT_NEAR(waited, stalled, 0.01 + 0.1 * stalled);
  const double busy = after.update_busy_seconds - before.update_busy_seconds;
  EXPECT_NEAR(worker_seconds, busy, 0.01 + 0.1 * busy);
}

}  // namespace
}  // namespace spillway
