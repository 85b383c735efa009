#include "io/base/trace.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "io/base/clock.h"
#include "io/block_queue.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

std::vector<Span> Taken(Trace& trace) {
  std::vector<Span> spans;
  trace.Take(&spans);
  return spans;
}

TEST(Trace, KeepsNothingWhileItIsOff) {
  Trace trace;
  { const TraceSpan span(&trace, SpanKind::kForward, 1); }
  { const TraceSpan span(nullptr, SpanKind::kForward, 1); }
  trace.Record(Span());
  EXPECT_TRUE(Taken(trace).empty());
  EXPECT_FALSE(IsOn(nullptr));
}

TEST(Trace, SpansHaveTheirBlocksTimeAndThread) {
  Trace trace;
  trace.TurnOn(true);
  const int64_t before = Trace::Now();
  { const TraceSpan span(&trace, SpanKind::kUpdate, 3, 7); }
  std::thread([&] { const TraceSpan span(&trace, SpanKind::kCheck); }).join();
  const std::vector<Span> spans = Taken(trace);
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].kind, SpanKind::kUpdate);
  EXPECT_EQ(spans[0].unit, 3);
  EXPECT_EQ(spans[0].tile, 7);
  EXPECT_GE(spans[0].begin_ns, before);
  EXPECT_GE(spans[0].end_ns, spans[0].begin_ns);
  EXPECT_LE(spans[1].end_ns, Trace::Now());
  EXPECT_NE(spans[0].thread, spans[1].thread);
  EXPECT_EQ(spans[0].thread, Trace::ThisThread());
  EXPECT_TRUE(Taken(trace).empty());
}

TEST(Trace, WhatDoesNotFitIsCounted) {
  Trace trace;
  trace.TurnOn(true);
  for (size_t i = 0; i < Trace::kMostSpans + 5; ++i) trace.Record(Span());
  EXPECT_EQ(trace.lost(), 5u);
  EXPECT_EQ(Taken(trace).size(), Trace::kMostSpans);
  trace.Record(Span());
  EXPECT_EQ(Taken(trace).size(), 1u);
  EXPECT_EQ(trace.lost(), 5u);
}

TEST(Trace, ManyThreadsRecordWhileOneTakes) {
  Trace trace;
  trace.TurnOn(true);
  constexpr int kEach = 2000;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) const TraceSpan span(&trace, SpanKind::kRound, i);
    });
  }
  size_t taken = 0;
  while (taken < 2 * kEach) taken += Taken(trace).size();
  for (std::thread& thread : threads) thread.join();
  taken += Taken(trace).size();
  EXPECT_EQ(taken, 4u * kEach);
  EXPECT_EQ(trace.lost(), 0u);
}

// The queue of both engines, with a backend that moves everything at once.
class TracedQueueTest : public testing::Test {
 protected:
  void SetUp() override {
    auto file = File::Open(scratch_ / "file", {.write = true, .create = true, .direct = false});
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
  }

  IoRequest Request(IoOp op, uint64_t bytes) {
    IoRequest request;
    request.op = op;
    request.io_class = op == IoOp::kRead ? IoClass::kDemand : IoClass::kWriteBack;
    request.file = file_.get();
    request.data = memory_.data();
    request.size_bytes = bytes;
    request.unit = 4;
    request.tile = 2;
    request.done = [](IoRequest&, const absl::Status&) {};
    return request;
  }

  ScratchDirectory scratch_;
  AlignedMemory memory_{64 << 10};
  std::unique_ptr<File> file_;
  Trace trace_;
  BlockQueue queue_{4096, 8, &MonotonicNanoseconds, BlockQueue::kNoWindow, &trace_};
};

TEST_F(TracedQueueTest, ARequestIsASpanFromItsFirstBlockToItsLast) {
  trace_.TurnOn(true);
  IoRequest read = Request(IoOp::kRead, 10000), write = Request(IoOp::kWrite, 4096);
  queue_.Add(&read);
  queue_.Add(&write);
  const int64_t submitted = Trace::Now();
  std::vector<IoBlock*> blocks;
  while (IoBlock* block = queue_.Next()) blocks.push_back(block);
  ASSERT_EQ(blocks.size(), 4u);
  const int64_t started = Trace::Now();
  EXPECT_TRUE(Taken(trace_).empty());
  for (IoBlock* block : blocks) queue_.Returned(block, block->size_bytes);
  const std::vector<Span> spans = Taken(trace_);
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].kind, SpanKind::kRead);
  EXPECT_EQ(spans[0].bytes, 10000u);
  EXPECT_EQ(spans[0].unit, 4);
  EXPECT_EQ(spans[0].tile, 2);
  EXPECT_EQ(static_cast<IoClass>(spans[0].detail), IoClass::kDemand);
  EXPECT_LE(spans[0].submitted_ns, submitted);
  EXPECT_GE(spans[0].begin_ns, submitted);
  EXPECT_LE(spans[0].begin_ns, started);
  EXPECT_GE(spans[0].end_ns, started);
  EXPECT_EQ(spans[0].in_flight_at_begin, 4096u);
  EXPECT_EQ(spans[0].in_flight_at_end, 4096u);  // the write's
  EXPECT_EQ(spans[1].kind, SpanKind::kWrite);
  EXPECT_EQ(static_cast<IoClass>(spans[1].detail), IoClass::kWriteBack);
  EXPECT_EQ(spans[1].in_flight_at_begin, 14096u);
  EXPECT_EQ(spans[1].in_flight_at_end, 0u);
  queue_.RunCallbacks();
}

TEST_F(TracedQueueTest, WhatWasSubmittedBeforeItWasOnIsNoSpan) {
  IoRequest read = Request(IoOp::kRead, 4096);
  queue_.Add(&read);
  trace_.TurnOn(true);
  IoBlock* block = queue_.Next();
  queue_.Returned(block, 4096);
  EXPECT_TRUE(Taken(trace_).empty());
  queue_.RunCallbacks();
  queue_.Add(&read);  // again
  block = queue_.Next();
  queue_.Returned(block, 4096);
  EXPECT_EQ(Taken(trace_).size(), 1u);
  queue_.RunCallbacks();
}

}  // namespace
}  // namespace spillway
