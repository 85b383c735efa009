// The queue under a scripted backend and clock: no disk, no threads.
#include "io/block_queue.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/io/block_queue_fixture.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

int64_t fake_now = 0;
int64_t FakeNow() { return fake_now; }
// Every look at it takes as long as a pause.
int64_t SlowNow() { return fake_now += BlockQueue::kRetryPauseNanoseconds; }

TEST_F(BlockQueueTest, RequestsAreCutIntoBlocksUpToTheDepth) {
  BlockQueue queue(100, 4);
  Recorded a(file_.get(), IoOp::kRead, 1000, memory_.data(), 250);
  Recorded b(file_.get(), IoOp::kWrite, 5000, memory_.data() + 500, 300);
  queue.Add(&a);
  queue.Add(&b);
  std::vector<IoBlock*> blocks;
  while (IoBlock* block = queue.Next()) blocks.push_back(block);
  ASSERT_EQ(blocks.size(), 4);
  EXPECT_EQ(queue.in_flight(), 4);
  EXPECT_EQ(blocks[0]->offset_bytes, 1000);
  EXPECT_EQ(blocks[2]->offset_bytes, 1200);
  EXPECT_EQ(blocks[2]->size_bytes, 50);
  EXPECT_EQ(blocks[2]->data, memory_.data() + 200);
  EXPECT_EQ(blocks[3]->op, IoOp::kWrite);
  EXPECT_EQ(blocks[3]->offset_bytes, 5000);
  EXPECT_EQ(blocks[3]->fd, file_->fd());

  for (int i : {2, 0}) queue.Returned(blocks[i], static_cast<int64_t>(blocks[i]->size_bytes));
  EXPECT_FALSE(queue.has_completed());
  queue.Returned(blocks[1], 100);
  EXPECT_EQ(a.calls, 0);  // only RunCallbacks calls back
  EXPECT_EQ(queue.pending(), 2);
  EXPECT_EQ(queue.RunCallbacks(), 1);
  EXPECT_EQ(a.calls, 1);
  EXPECT_TRUE(a.result.ok());
  EXPECT_EQ(queue.pending(), 1);
}

TEST_F(BlockQueueTest, ShortTransferIsContinuedWhereItStopped) {
  BlockQueue queue(1000, 1);
  Recorded a(file_.get(), IoOp::kRead, 10, memory_.data(), 1000);
  queue.Add(&a);
  queue.Returned(queue.Next(), 300);
  EXPECT_FALSE(queue.has_completed());
  IoBlock* block = queue.Next();
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->offset_bytes, 310);
  EXPECT_EQ(block->data, memory_.data() + 300);
  EXPECT_EQ(block->size_bytes, 700);
  queue.Returned(block, 700);
  EXPECT_EQ(queue.RunCallbacks(), 1);
  EXPECT_TRUE(a.result.ok()) << a.result;
}

TEST_F(BlockQueueTest, ShortDirectTransferIsContinuedAtAnAlignedPlace) {
  if (!direct_->direct()) GTEST_SKIP() << "no direct I/O here";
  const uint64_t unit = direct_->alignment_bytes();
  BlockQueue queue(16 * unit, 1);
  Recorded a(direct_.get(), IoOp::kWrite, 0, memory_.data(), 16 * unit);
  queue.Add(&a);
  queue.Returned(queue.Next(), static_cast<int64_t>(3 * unit + 7));
  IoBlock* block = queue.Next();
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->offset_bytes, 3 * unit);
  EXPECT_EQ(block->size_bytes, 13 * unit);
}

TEST_F(BlockQueueTest, BlocksOfDirectFilesKeepTheAlignment) {
  if (!direct_->direct()) GTEST_SKIP() << "no direct I/O here";
  const uint64_t unit = direct_->alignment_bytes();
  for (const uint64_t block_bytes : {unit / 2, unit + unit / 2, 3 * unit + 1}) {
    BlockQueue queue(block_bytes, 64);
    Recorded a(direct_.get(), IoOp::kRead, 0, memory_.data(), 8 * unit);
    queue.Add(&a);
    uint64_t total_bytes = 0;
    while (IoBlock* block = queue.Next()) {
      EXPECT_EQ(block->offset_bytes % unit, 0);
      EXPECT_EQ(block->size_bytes % unit, 0);
      EXPECT_LE(block->size_bytes, std::max(block_bytes, unit));
      total_bytes += block->size_bytes;
    }
    EXPECT_EQ(total_bytes, 8 * unit);
  }
}

TEST_F(BlockQueueTest, InterruptedTransferIsRepeated) {
  for (const int error : {EINTR, EAGAIN}) {
    BlockQueue queue(1000, 2, &SlowNow);
    Recorded a(file_.get(), IoOp::kWrite, 0, memory_.data(), 1000);
    queue.Add(&a);
    for (int i = 0; i < 100; ++i) {
      IoBlock* block = queue.Next();
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(block->offset_bytes, 0);
      EXPECT_EQ(block->size_bytes, 1000);
      EXPECT_EQ(block->retries, i);
      queue.Returned(block, -error);
      EXPECT_FALSE(queue.has_completed());
    }
    queue.Returned(queue.Next(), 1000);
    EXPECT_EQ(queue.RunCallbacks(), 1);
    EXPECT_TRUE(a.result.ok()) << a.result;
  }
}

TEST_F(BlockQueueTest, WhatIsInterruptedAgainAndAgainPausesAndOthersGoOn) {
  fake_now = 1'000'000'000;
  BlockQueue queue(1000, 2, &FakeNow);
  Recorded stuck(file_.get(), IoOp::kRead, 0, memory_.data(), 1000);
  Recorded other(file_.get(), IoOp::kRead, 1000, memory_.data() + 1000, 1000);
  queue.Add(&stuck);
  for (uint32_t i = 0; i <= BlockQueue::kEagerRetries; ++i) {
    EXPECT_EQ(queue.PauseNanoseconds().value_or(0), 0);
    queue.Returned(queue.Next(), -EAGAIN);
  }
  EXPECT_EQ(queue.Next(), nullptr);
  fake_now += 400'000;
  EXPECT_EQ(queue.PauseNanoseconds(), BlockQueue::kRetryPauseNanoseconds - 400'000);
  queue.Add(&other);
  queue.Returned(queue.Next(), 1000);
  EXPECT_EQ(queue.RunCallbacks(), 1);
  EXPECT_TRUE(other.result.ok()) << other.result;
  EXPECT_EQ(queue.Next(), nullptr);
  fake_now += 600'000;
  EXPECT_EQ(queue.PauseNanoseconds(), 0);
  queue.Returned(queue.Next(), 1000);
  EXPECT_EQ(queue.PauseNanoseconds(), std::nullopt);
  EXPECT_EQ(queue.RunCallbacks(), 1);
  EXPECT_TRUE(stuck.result.ok()) << stuck.result;
}

TEST_F(BlockQueueTest, EndlessInterruptionBecomesAnError) {
  BlockQueue queue(1000, 1, &SlowNow);
  Recorded a(file_.get(), IoOp::kWrite, 0, memory_.data(), 1000);
  queue.Add(&a);
  uint32_t tries = 0;
  while (IoBlock* block = queue.Next()) {
    ASSERT_LE(++tries, BlockQueue::kRetriesLimit + 1);
    queue.Returned(block, tries % 2 == 0 ? -EAGAIN : 0);
  }
  EXPECT_EQ(queue.RunCallbacks(), 1);
  EXPECT_FALSE(a.result.ok());
}

TEST_F(BlockQueueTest, ProgressStartsTheRetriesAnew) {
  BlockQueue queue(1u << 20, 1);
  const uint64_t size_bytes = 2 * BlockQueue::kRetriesLimit;
  Recorded a(file_.get(), IoOp::kWrite, 0, memory_.data(), size_bytes);
  queue.Add(&a);
  for (uint64_t i = 0; i < size_bytes; ++i) {
    queue.Returned(queue.Next(), -EAGAIN);
    queue.Returned(queue.Next(), 1);
  }
  EXPECT_EQ(queue.RunCallbacks(), 1);
  EXPECT_TRUE(a.result.ok()) << a.result;
}

TEST_F(BlockQueueTest, EndOfFileBeforeTheLastByteIsAnError) {
  BlockQueue queue(1000, 1);
  Recorded a(file_.get(), IoOp::kRead, 4000, memory_.data(), 1000);
  queue.Add(&a);
  queue.Returned(queue.Next(), 123);
  queue.Returned(queue.Next(), 0);
  EXPECT_EQ(queue.RunCallbacks(), 1);
  EXPECT_TRUE(absl::IsOutOfRange(a.result)) << a.result;
  EXPECT_THAT(std::string(a.result.message()), HasSubstr("ends at offset 4123"));
}

TEST_F(BlockQueueTest, EndOfFileInsideADirectUnitIsAnError) {
  if (!direct_->direct()) GTEST_SKIP() << "no direct I/O here";
  const uint64_t unit = direct_->alignment_bytes();
  BlockQueue queue(4 * unit, 1);
  Recorded a(direct_.get(), IoOp::kRead, 0, memory_.data(), 4 * unit);
  queue.Add(&a);
  queue.Returned(queue.Next(), static_cast<int64_t>(unit + 100));
  queue.Returned(queue.Next(), 100);
  EXPECT_EQ(queue.RunCallbacks(), 1);
  EXPECT_TRUE(absl::IsOutOfRange(a.result)) << a.result;
}

TEST_F(BlockQueueTest, ErrorNamesPathOffsetAndSize) {
  BlockQueue queue(1000, 4);
  Recorded a(file_.get(), IoOp::kWrite, 7000, memory_.data(), 3000);
  queue.Add(&a);
  IoBlock* first = queue.Next();
  IoBlock* second = queue.Next();
  queue.Returned(first, 1000);
  queue.Returned(second, -EIO);
  ASSERT_EQ(queue.RunCallbacks(), 1);
  EXPECT_TRUE(absl::IsUnavailable(a.result)) << a.result;
  const std::string message(a.result.message());
  EXPECT_THAT(message, HasSubstr("write 3000 bytes at offset 7000 of " + file_->path()));
  EXPECT_THAT(message, HasSubstr("failed at offset 8000"));
}

TEST_F(BlockQueueTest, FirstErrorWinsAndDoneWaitsForEveryBlock) {
  BlockQueue queue(100, 3);
  Recorded a(file_.get(), IoOp::kRead, 0, memory_.data(), 1000);
  Recorded b(file_.get(), IoOp::kRead, 5000, memory_.data(), 100);
  queue.Add(&a);
  queue.Add(&b);
  IoBlock* blocks[] = {queue.Next(), queue.Next(), queue.Next()};
  queue.Returned(blocks[1], -EIO);
  EXPECT_FALSE(queue.has_completed());  // two blocks may still write to its memory
  IoBlock* next = queue.Next();
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->request, &b);  // the failed request gets no further blocks
  queue.Returned(blocks[0], -ENOSPC);
  EXPECT_FALSE(queue.has_completed());
  queue.Returned(blocks[2], 40);  // short: not worth continuing
  EXPECT_TRUE(queue.has_completed());
  EXPECT_EQ(queue.RunCallbacks(), 1);
  EXPECT_EQ(a.calls, 1);
  EXPECT_TRUE(absl::IsUnavailable(a.result)) << a.result;
  queue.Returned(next, 100);
  EXPECT_EQ(queue.RunCallbacks(), 1);
  EXPECT_TRUE(b.result.ok());
  EXPECT_EQ(queue.pending(), 0);
  EXPECT_EQ(queue.in_flight(), 0);
}

TEST_F(BlockQueueTest, BlocksWaitingToBeRepeatedEndWithTheirRequest) {
  BlockQueue queue(100, 3);
  Recorded a(file_.get(), IoOp::kRead, 0, memory_.data(), 300);
  queue.Add(&a);
  IoBlock* blocks[] = {queue.Next(), queue.Next(), queue.Next()};
  queue.Returned(blocks[0], -EAGAIN);
  queue.Returned(blocks[1], 50);
  queue.Returned(blocks[2], -EIO);
  EXPECT_EQ(queue.Next(), nullptr);
  EXPECT_EQ(queue.RunCallbacks(), 1);
  EXPECT_EQ(a.calls, 1);
  // All three slots are free again.
  Recorded b(file_.get(), IoOp::kRead, 0, memory_.data(), 300);
  queue.Add(&b);
  for (int i = 0; i < 3; ++i) EXPECT_NE(queue.Next(), nullptr);
}
TEST_F(BlockQueueTest, EmptyRequestCompletes) {
  BlockQueue queue(100, 1);
  Recorded a(file_.get(), IoOp::kRead, 0, memory_.data(), 0);
  queue.Add(&a);
  EXPECT_EQ(queue.Next(), nullptr);
  EXPECT_EQ(a.calls, 0);
  EXPECT_EQ(queue.RunCallbacks(), 1);
  EXPECT_TRUE(a.result.ok());
}

TEST_F(BlockQueueTest, ACallbackMaySubmitItsOwnRequestAgain) {
  static BlockQueue* current = nullptr;
  BlockQueue queue(100, 1);
  current = &queue;
  Recorded a(file_.get(), IoOp::kRead, 0, memory_.data(), 0);
  a.done = [](IoRequest& request, const absl::Status&) {
    if (++static_cast<Recorded&>(request).calls < 5) current->Add(&request);
  };
  queue.Add(&a);
  for (int round = 1; round <= 5; ++round) {
    EXPECT_EQ(queue.RunCallbacks(), 1);  // and never the one that is submitted meanwhile
    EXPECT_EQ(a.calls, round);
  }
  EXPECT_EQ(queue.pending(), 0);
}

TEST_F(BlockQueueTest, StatisticsCountBytesAndBusyTime) {
  fake_now = 1'000'000'000;
  BlockQueue queue(100, 2, &FakeNow);
  Recorded a(file_.get(), IoOp::kRead, 0, memory_.data(), 100);
  Recorded b(file_.get(), IoOp::kWrite, 0, memory_.data(), 60);
  queue.Add(&a);
  queue.Add(&b);
  IoBlock* read = queue.Next();
  fake_now += 1'000'000'000;
  IoBlock* write = queue.Next();
  fake_now += 1'000'000'000;
  EXPECT_DOUBLE_EQ(queue.stats().busy_seconds, 2);  // busy at this moment counts
  queue.Returned(read, 100);
  fake_now += 500'000'000;
  queue.Returned(write, 60);
  fake_now += 7'000'000'000;  // idle
  EXPECT_DOUBLE_EQ(queue.stats().busy_seconds, 2.5);
  EXPECT_EQ(queue.stats().read_bytes, 100);
  EXPECT_EQ(queue.stats().written_bytes, 60);
}

TEST_F(BlockQueueTest, UnalignedRequestIsOurOwnMistake) {
  if (!direct_->direct()) GTEST_SKIP() << "no direct I/O here";
  BlockQueue queue(1 << 20, 1);
  const uint64_t unit = direct_->alignment_bytes();
  Recorded offset(direct_.get(), IoOp::kRead, 1, memory_.data(), unit);
  Recorded size(direct_.get(), IoOp::kRead, 0, memory_.data(), unit + 1);
  Recorded address(direct_.get(), IoOp::kRead, 0, memory_.data() + 1, unit);
  EXPECT_DEATH(queue.Add(&offset), "check failed");
  EXPECT_DEATH(queue.Add(&size), "check failed");
  EXPECT_DEATH(queue.Add(&address), "check failed");
}
}  // namespace
}  // namespace spillway
