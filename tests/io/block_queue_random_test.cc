// The queue under a backend that does anything a disk may do.
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "io/block_queue.h"
#include "tests/io/block_queue_fixture.h"

namespace spillway {
namespace {

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
