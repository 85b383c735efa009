// The queue under a scripted backend: no disk, no clock, no threads.
#include "io/block_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A request that notes what becomes of it. Its address stays: `context`.
struct Recorded : IoRequest {
  Recorded(const File* f, IoOp o, uint64_t offset, char* d, uint64_t size,
           IoClass c = IoClass::kDemand) {
    op = o;
    io_class = c;
    file = f;
    offset_bytes = offset;
    data = d;
    size_bytes = size;
    done = [](IoRequest& request, const absl::Status& status) {
      auto& self = static_cast<Recorded&>(request);
      ++self.calls;
      self.result = status;
    };
  }
  int calls = 0;
  absl::Status result = absl::UnknownError("done has not run");
};

class BlockQueueTest : public testing::Test {
 protected:
  void SetUp() override {
    auto buffered =
        File::Open(scratch_ / "buffered", {.write = true, .create = true, .direct = false});
    ASSERT_TRUE(buffered.ok()) << buffered.status();
    file_ = *std::move(buffered);
    auto direct = File::Open(scratch_ / "direct", {.write = true, .create = true});
    ASSERT_TRUE(direct.ok()) << direct.status();
    direct_ = *std::move(direct);
  }

  // From now on the window is in force.
  void ReportDemand(BlockQueue& queue) {
    Recorded demand(file_.get(), IoOp::kRead, 0, memory_.data(), 0, IoClass::kDemand);
    queue.Add(&demand);
    queue.RunCallbacks();
  }

  ScratchDirectory scratch_;
  std::unique_ptr<File> file_;
  std::unique_ptr<File> direct_;
  AlignedMemory memory_{1 << 20};
};

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
    BlockQueue queue(1000, 2);
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

TEST_F(BlockQueueTest, EndlessInterruptionBecomesAnError) {
  BlockQueue queue(1000, 1);
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

TEST_F(BlockQueueTest, DemandGoesBeforePrefetchBeforeWriteBack) {
  BlockQueue queue(100, 16);
  Recorded write_back(file_.get(), IoOp::kWrite, 0, memory_.data(), 200, IoClass::kWriteBack);
  Recorded prefetch(file_.get(), IoOp::kRead, 0, memory_.data(), 200, IoClass::kPrefetch);
  Recorded demand(file_.get(), IoOp::kRead, 0, memory_.data(), 200, IoClass::kDemand);
  queue.Add(&write_back);
  queue.Add(&prefetch);
  EXPECT_EQ(queue.Next()->request, &prefetch);
  queue.Add(&demand);  // passes what is only half started
  std::vector<IoRequest*> order;
  while (IoBlock* block = queue.Next()) order.push_back(block->request);
  EXPECT_THAT(order, ElementsAre(&demand, &demand, &prefetch, &write_back, &write_back));
}

TEST_F(BlockQueueTest, EndlessDemandDoesNotStarveTheOthers) {
  BlockQueue queue(1, 1);
  Recorded demand(file_.get(), IoOp::kRead, 0, memory_.data(), 1000, IoClass::kDemand);
  Recorded prefetch(file_.get(), IoOp::kRead, 0, memory_.data(), 1000, IoClass::kPrefetch);
  Recorded write_back(file_.get(), IoOp::kWrite, 0, memory_.data(), 1000, IoClass::kWriteBack);
  for (Recorded* request : {&demand, &prefetch, &write_back}) queue.Add(request);
  int counts[3] = {};
  for (int i = 0; i < 900; ++i) {
    IoBlock* block = queue.Next();
    ++counts[static_cast<int>(block->request->io_class)];
    queue.Returned(block, 1);
  }
  EXPECT_GE(counts[1], 900 / (BlockQueue::kPassedOverLimit + 2) - 1);
  EXPECT_GE(counts[2], 900 / (BlockQueue::kPassedOverLimit + 2) - 1);
  EXPECT_GE(counts[0], 700);  // and demand keeps by far the most
}

TEST_F(BlockQueueTest, AClassThatWaitedLongAgoHasNoClaim) {
  BlockQueue queue(1, 1);
  Recorded demand(file_.get(), IoOp::kRead, 0, memory_.data(), 1000, IoClass::kDemand);
  Recorded write_back(file_.get(), IoOp::kWrite, 0, memory_.data(), 1, IoClass::kWriteBack);
  queue.Add(&demand);
  queue.Add(&write_back);
  for (int i = 0; i <= BlockQueue::kPassedOverLimit; ++i) queue.Returned(queue.Next(), 1);
  ASSERT_EQ(queue.RunCallbacks(), 1);
  ASSERT_EQ(write_back.calls, 1);
  queue.Add(&write_back);
  EXPECT_EQ(queue.Next()->request, &demand);
}

TEST_F(BlockQueueTest, WriteBackStaysInsideItsWindow) {
  BlockQueue queue(100, 16, &BlockQueue::MonotonicNanoseconds, 350);
  ReportDemand(queue);
  Recorded write_back(file_.get(), IoOp::kWrite, 0, memory_.data(), 1000, IoClass::kWriteBack);
  Recorded prefetch(file_.get(), IoOp::kWrite, 0, memory_.data(), 500, IoClass::kPrefetch);
  queue.Add(&write_back);
  std::vector<IoBlock*> blocks;
  while (IoBlock* block = queue.Next()) blocks.push_back(block);
  EXPECT_EQ(blocks.size(), 3);
  queue.Add(&prefetch);  // no window for the others
  for (int i = 0; i < 5; ++i) ASSERT_NE(queue.Next(), nullptr);
  EXPECT_EQ(queue.Next(), nullptr);
  queue.Returned(blocks[1], 100);
  IoBlock* block = queue.Next();
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->request, &write_back);
  EXPECT_EQ(block->offset_bytes, 300);
  EXPECT_EQ(queue.Next(), nullptr);
}

TEST_F(BlockQueueTest, AShortWriteKeepsItsPlaceInTheWindow) {
  BlockQueue queue(100, 16, &BlockQueue::MonotonicNanoseconds, 100);
  ReportDemand(queue);
  Recorded write_back(file_.get(), IoOp::kWrite, 0, memory_.data(), 300, IoClass::kWriteBack);
  queue.Add(&write_back);
  queue.Returned(queue.Next(), 60);
  IoBlock* rest = queue.Next();
  ASSERT_NE(rest, nullptr);
  EXPECT_EQ(rest->offset_bytes, 60);
  EXPECT_EQ(queue.Next(), nullptr);
  queue.Returned(rest, 40);
  EXPECT_EQ(queue.Next()->offset_bytes, 100);
}

TEST_F(BlockQueueTest, OneBlockIsAllowedHoweverSmallTheWindow) {
  BlockQueue queue(1000, 16, &BlockQueue::MonotonicNanoseconds, 10);
  ReportDemand(queue);
  Recorded write_back(file_.get(), IoOp::kWrite, 0, memory_.data(), 3000, IoClass::kWriteBack);
  queue.Add(&write_back);
  for (int i = 0; i < 3; ++i) {
    IoBlock* block = queue.Next();
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(queue.Next(), nullptr);
    queue.Returned(block, 1000);
  }
  EXPECT_EQ(queue.RunCallbacks(), 1);
}

TEST_F(BlockQueueTest, AFailedWriteLeavesTheWindow) {
  BlockQueue queue(100, 16, &BlockQueue::MonotonicNanoseconds, 100);
  ReportDemand(queue);
  Recorded first(file_.get(), IoOp::kWrite, 0, memory_.data(), 300, IoClass::kWriteBack);
  Recorded second(file_.get(), IoOp::kWrite, 1000, memory_.data(), 100, IoClass::kWriteBack);
  queue.Add(&first);
  queue.Add(&second);
  queue.Returned(queue.Next(), -EIO);
  IoBlock* block = queue.Next();
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->request, &second);
}

TEST_F(BlockQueueTest, ReadsOfTheLowestClassPassWritesThatTheWindowHolds) {
  BlockQueue queue(100, 16, &BlockQueue::MonotonicNanoseconds, 100);
  ReportDemand(queue);
  Recorded write(file_.get(), IoOp::kWrite, 0, memory_.data(), 300, IoClass::kWriteBack);
  Recorded read(file_.get(), IoOp::kRead, 0, memory_.data(), 200, IoClass::kWriteBack);
  queue.Add(&write);
  queue.Add(&read);
  std::vector<IoRequest*> order;
  IoBlock* first = queue.Next();
  order.push_back(first->request);
  while (IoBlock* block = queue.Next()) order.push_back(block->request);
  EXPECT_THAT(order, ElementsAre(&write, &read, &read));
  queue.Returned(first, 100);
  EXPECT_EQ(queue.Next()->request, &write);
}

TEST_F(BlockQueueTest, WithRoomInTheWindowTheLowestClassGoesInOrderOfArrival) {
  BlockQueue queue(100, 16, &BlockQueue::MonotonicNanoseconds, 1000);
  ReportDemand(queue);
  Recorded write(file_.get(), IoOp::kWrite, 0, memory_.data(), 200, IoClass::kWriteBack);
  Recorded read(file_.get(), IoOp::kRead, 0, memory_.data(), 100, IoClass::kWriteBack);
  Recorded last(file_.get(), IoOp::kWrite, 0, memory_.data(), 100, IoClass::kWriteBack);
  for (Recorded* request : {&write, &read, &last}) queue.Add(request);
  std::vector<IoRequest*> order;
  while (IoBlock* block = queue.Next()) order.push_back(block->request);
  EXPECT_THAT(order, ElementsAre(&write, &write, &read, &last));
}

TEST_F(BlockQueueTest, WhatAFullWindowHoldsBackIsNotPassedOver) {
  BlockQueue queue(1, 2, &BlockQueue::MonotonicNanoseconds, 1);
  ReportDemand(queue);
  Recorded write_back(file_.get(), IoOp::kWrite, 0, memory_.data(), 1000, IoClass::kWriteBack);
  queue.Add(&write_back);
  IoBlock* in_window = queue.Next();
  Recorded demand(file_.get(), IoOp::kRead, 0, memory_.data(), 1000, IoClass::kDemand);
  queue.Add(&demand);
  for (int i = 0; i < 3 * BlockQueue::kPassedOverLimit; ++i) queue.Returned(queue.Next(), 1);
  queue.Returned(in_window, 1);
  EXPECT_EQ(queue.Next()->request, &demand);
}

int64_t scripted_now = 0;

TEST_F(BlockQueueTest, TheWindowIsInForceOnlyWhileThereIsDemand) {
  scripted_now = 1;
  BlockQueue queue(
      100, 16, [] { return scripted_now; }, 100);
  Recorded write_back(file_.get(), IoOp::kWrite, 0, memory_.data(), 900, IoClass::kWriteBack);
  queue.Add(&write_back);
  std::vector<IoBlock*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(queue.Next());
  EXPECT_NE(blocks.back(), nullptr);
  ReportDemand(queue);
  EXPECT_EQ(queue.Next(), nullptr);
  // What is in flight from before must come back first.
  for (int i = 0; i < 3; ++i) queue.Returned(blocks[i], 100);
  EXPECT_EQ(queue.Next(), nullptr);
  queue.Returned(blocks[3], 100);
  EXPECT_NE(queue.Next(), nullptr);
  EXPECT_EQ(queue.Next(), nullptr);
  scripted_now += BlockQueue::kDemandRememberedNanoseconds;
  EXPECT_EQ(queue.Next(), nullptr);
  ++scripted_now;
  EXPECT_NE(queue.Next(), nullptr);
  EXPECT_NE(queue.Next(), nullptr);
}

TEST_F(BlockQueueTest, BesideADemandReadWritesHaveHalfOfTheWindow) {
  BlockQueue queue(100, 16, &BlockQueue::MonotonicNanoseconds, 400);
  Recorded demand(file_.get(), IoOp::kRead, 0, memory_.data(), 100, IoClass::kDemand);
  Recorded write_back(file_.get(), IoOp::kWrite, 0, memory_.data(), 900, IoClass::kWriteBack);
  queue.Add(&demand);
  queue.Add(&write_back);
  IoBlock* read = queue.Next();
  ASSERT_EQ(read->request, &demand);
  ASSERT_NE(queue.Next(), nullptr);
  ASSERT_NE(queue.Next(), nullptr);
  EXPECT_EQ(queue.Next(), nullptr);
  queue.Returned(read, 100);
  EXPECT_NE(queue.Next(), nullptr);
  EXPECT_NE(queue.Next(), nullptr);
  EXPECT_EQ(queue.Next(), nullptr);
}

TEST_F(BlockQueueTest, EachFileHasAWindowOfItsOwn) {
  BlockQueue queue(100, 16, &BlockQueue::MonotonicNanoseconds, 200);
  ReportDemand(queue);
  Recorded a(file_.get(), IoOp::kWrite, 0, memory_.data(), 1000, IoClass::kWriteBack);
  auto other = File::Open(scratch_ / "other", {.write = true, .create = true, .direct = false});
  ASSERT_TRUE(other.ok());
  Recorded b(other->get(), IoOp::kWrite, 0, memory_.data(), 1000, IoClass::kWriteBack);
  queue.Add(&a);
  queue.Add(&b);
  int counts[2] = {};
  while (IoBlock* block = queue.Next()) ++counts[block->request == &b];
  EXPECT_THAT(counts, ElementsAre(2, 2));
}

TEST_F(BlockQueueTest, ASlowFileDoesNotTakeTheQueueFromAFastOne) {
  BlockQueue queue(1, 8);
  auto fast = File::Open(scratch_ / "fast", {.write = true, .create = true, .direct = false});
  ASSERT_TRUE(fast.ok());
  Recorded slow(file_.get(), IoOp::kRead, 0, memory_.data(), 10000);
  Recorded quick(fast->get(), IoOp::kRead, 0, memory_.data(), 10000);
  queue.Add(&slow);  // the first to come
  queue.Add(&quick);
  int64_t moved[2] = {};
  std::vector<IoBlock*> in_flight;
  for (int round = 0; round < 1000; ++round) {
    while (IoBlock* block = queue.Next()) in_flight.push_back(block);
    // The fast one ends all it has, the slow one a block every hundredth round.
    std::erase_if(in_flight, [&](IoBlock* block) {
      const bool is_fast = block->request == &quick;
      if (!is_fast && (round % 100 != 0 || moved[0] > round / 100)) return false;
      ++moved[is_fast];
      queue.Returned(block, 1);
      return true;
    });
  }
  EXPECT_LE(moved[0], 11);
  EXPECT_GE(moved[1], 3900);  // half of the queue in every round
}

TEST_F(BlockQueueTest, FilesTakeTurnsAndEachKeepsItsOrder) {
  BlockQueue queue(100, 16);
  auto other = File::Open(scratch_ / "other", {.write = true, .create = true, .direct = false});
  ASSERT_TRUE(other.ok());
  Recorded a1(file_.get(), IoOp::kRead, 0, memory_.data(), 200);
  Recorded a2(file_.get(), IoOp::kRead, 0, memory_.data(), 100);
  Recorded b(other->get(), IoOp::kRead, 0, memory_.data(), 300);
  for (Recorded* request : {&a1, &a2, &b}) queue.Add(request);
  std::vector<IoRequest*> order;
  while (IoBlock* block = queue.Next()) order.push_back(block->request);
  EXPECT_THAT(order, ElementsAre(&a1, &b, &a1, &b, &a2, &b));
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

int64_t fake_now = 0;

TEST_F(BlockQueueTest, StatisticsCountBytesAndBusyTime) {
  fake_now = 1'000'000'000;
  BlockQueue queue(
      100, 2, +[] { return fake_now; });
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

// Random requests over a backend in memory that returns blocks in any order,
// short, interrupted or failed, checked against what must have happened.
class RandomTraffic : public BlockQueueTest, public testing::WithParamInterface<int> {};

TEST_P(RandomTraffic, EveryRequestEndsOnceWithTheRightBytesOrItsError) {
  std::mt19937_64 random(GetParam());
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  const auto below = [&](uint64_t n) { return random() % n; };

  constexpr size_t kSize = 64 << 10;
  constexpr size_t kPiece = 512;  // requests stay apart from each other
  std::string disk(kSize, '\0');
  FillRandom(disk.data(), kSize, random());
  const std::string before = disk;
  BlockQueue queue(1 + below(300), 1 + static_cast<uint32_t>(below(8)));
  std::vector<std::unique_ptr<Recorded>> requests;
  std::vector<bool> broken(kSize / kPiece);
  for (size_t i = 0; i < kSize / kPiece; ++i) {
    const size_t size_bytes = below(kPiece + 1);
    requests.push_back(std::make_unique<Recorded>(
        file_.get(), below(2) == 0 ? IoOp::kRead : IoOp::kWrite, i * kPiece,
        memory_.data() + i * kPiece, size_bytes, static_cast<IoClass>(below(3))));
    if (requests.back()->op == IoOp::kWrite) {
      FillRandom(requests.back()->data, size_bytes, i);
    }
    broken[i] = below(10) == 0;
  }
  size_t added = 0;
  std::vector<IoBlock*> started;
  while (added < requests.size() || queue.pending() > 0) {
    if (added < requests.size() && below(3) == 0) queue.Add(requests[added++].get());
    if (below(2) == 0) {
      if (IoBlock* block = queue.Next()) started.push_back(block);
    }
    if (!started.empty() && below(2) == 0) {
      std::swap(started[below(started.size())], started.back());
      IoBlock* block = started.back();
      started.pop_back();
      const uint64_t dice = below(8);
      if (broken[block->offset_bytes / kPiece] && dice == 0) {
        queue.Returned(block, -EIO);
      } else if (dice < 3) {
        queue.Returned(block, dice == 1 ? -EINTR : -EAGAIN);
      } else {
        const uint64_t moved = dice < 6 ? block->size_bytes : 1 + below(block->size_bytes);
        char* at = disk.data() + block->offset_bytes;
        std::memcpy(block->op == IoOp::kRead ? block->data : at,
                    block->op == IoOp::kRead ? at : block->data, moved);
        queue.Returned(block, static_cast<int64_t>(moved));
      }
    }
    if (below(4) == 0) queue.RunCallbacks();
  }
  EXPECT_TRUE(started.empty());
  EXPECT_EQ(queue.in_flight(), 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    const Recorded& request = *requests[i];
    ASSERT_EQ(request.calls, 1) << i;
    if (!request.result.ok()) {
      EXPECT_TRUE(broken[i]) << i << ": " << request.result;
      continue;
    }
    EXPECT_EQ(std::memcmp(request.data, disk.data() + i * kPiece, request.size_bytes), 0) << i;
    EXPECT_EQ(
        std::memcmp(
            before.data() + i * kPiece + (request.op == IoOp::kWrite ? request.size_bytes : 0),
            disk.data() + i * kPiece + (request.op == IoOp::kWrite ? request.size_bytes : 0),
            request.op == IoOp::kWrite ? kPiece - request.size_bytes : kPiece),
        0)
        << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomTraffic, testing::Range(0, 40));

}  // namespace
}  // namespace spillway
