// Which block the queue starts next: classes, windows of write-back, files in turn.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/base/clock.h"
#include "io/block_queue.h"
#include "tests/io/block_queue_fixture.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;

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
  BlockQueue queue(100, 16, &MonotonicNanoseconds, 350);
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
  BlockQueue queue(100, 16, &MonotonicNanoseconds, 100);
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
  BlockQueue queue(1000, 16, &MonotonicNanoseconds, 10);
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
  BlockQueue queue(100, 16, &MonotonicNanoseconds, 100);
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
  BlockQueue queue(100, 16, &MonotonicNanoseconds, 100);
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
  BlockQueue queue(100, 16, &MonotonicNanoseconds, 1000);
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
  BlockQueue queue(1, 2, &MonotonicNanoseconds, 1);
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
  BlockQueue queue(100, 16, &MonotonicNanoseconds, 400);
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
  BlockQueue queue(100, 16, &MonotonicNanoseconds, 200);
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
}  // namespace
}  // namespace spillway
