#include "swap/mover/buffers.h"

#include <vector>

#include "gtest/gtest.h"
#include "swap/mover/device_lane.h"
#include "tests/swap/plan/gpt_like.h"

namespace spillway {
namespace {

using enum BufferState;

Buffer BufferIn(BufferUse use, const std::vector<BufferState>& states) {
  Buffer buffer;
  buffer.use = use;
  for (const BufferState state : states) buffer.Become(state);
  return buffer;
}

TEST(Buffer, EveryUseHasItsWayFromWaitingToReleased) {
  const auto ends = [](BufferUse use, const std::vector<BufferState>& states) {
    EXPECT_EQ(BufferIn(use, states).state(), kReleased);
  };
  ends(BufferUse::kWeights, {kAllocated, kFetching, kReady, kReleased});
  ends(BufferUse::kWeights, {kAllocated, kTakingUpdate, kReady, kReleased});
  ends(BufferUse::kWeights, {kAllocated, kReleased});  // abandoned
  ends(BufferUse::kLoadedInput, {kAllocated, kFetching, kReady, kReleased});
  ends(BufferUse::kSavedInput, {kReady, kWriting, kReleased});
  ends(BufferUse::kSums, {kReady, kReleased});
  ends(BufferUse::kTurnTiles, {kReady, kReleased});
  ends(BufferUse::kSums, {kReleased});
}

// A buffer with addresses that others may have, or whose addresses are still written to, would
// show as wrong weights long after.
TEST(BufferDeathTest, NoStateIsLeftOutOrComesBack) {
  const auto may_not = [](BufferUse use, std::vector<BufferState> states, BufferState next) {
    Buffer buffer = BufferIn(use, states);
    EXPECT_DEATH(buffer.Become(next), "check failed: a buffer of unit 0.* may not go from");
  };
  may_not(BufferUse::kWeights, {}, kReady);
  may_not(BufferUse::kWeights, {}, kFetching);
  may_not(BufferUse::kWeights, {kAllocated}, kReady);
  may_not(BufferUse::kWeights, {kAllocated, kFetching}, kTakingUpdate);
  may_not(BufferUse::kWeights, {kAllocated, kFetching}, kReleased);
  may_not(BufferUse::kWeights, {kAllocated, kTakingUpdate}, kReleased);
  may_not(BufferUse::kWeights, {kAllocated, kFetching, kReady}, kFetching);
  may_not(BufferUse::kWeights, {kAllocated, kFetching, kReady, kReleased}, kReady);
  may_not(BufferUse::kWeights, {kAllocated, kReleased}, kReleased);
  may_not(BufferUse::kWeights, {kAllocated, kFetching, kReady}, kWriting);
  may_not(BufferUse::kLoadedInput, {kAllocated}, kTakingUpdate);
  may_not(BufferUse::kSums, {}, kAllocated);
  may_not(BufferUse::kSavedInput, {kReady, kWriting}, kReady);
}

TEST(BufferDeathTest, IsNotReadyWhileTransfersAreUnderWay) {
  Buffer buffer = BufferIn(BufferUse::kWeights, {kAllocated, kFetching});
  buffer.transfers_left = 1;
  EXPECT_DEATH(buffer.Become(kReady), "transfers_left == 0");
}

class BuffersDeathTest : public testing::Test {
 protected:
  const SwapPlan plan_ =
      PlanOf(GptLikeRequest(UpdateMode::kImmediate, TierChoice::kNvme, 4, 700000));
  MoverRecord record_;
  const std::unique_ptr<DeviceLane> lane_ =
      DeviceLane::Create(nullptr, StreamId::kCompute, nullptr, &record_, nullptr);
  const MoverContext context_{.plan = plan_,
                              .layout = plan_.layout,
                              .store = nullptr,
                              .arenas = {},
                              .compute = nullptr,
                              .engine = nullptr,
                              .thread = nullptr,
                              .workers = nullptr,
                              .executor = nullptr,
                              .lane = lane_.get(),
                              .record = &record_,
                              .trace = nullptr};
  Buffers buffers_{context_};
};

TEST_F(BuffersDeathTest, AVersionFollowsTheOneBefore) {
  buffers_.Settle(2, 1);
  buffers_.Settle(2, 2);
  EXPECT_DEATH(buffers_.Settle(2, 2), "settled_");
  EXPECT_DEATH(buffers_.Settle(2, 4), "settled_");
  buffers_.SaveInput(1, 3);
  EXPECT_DEATH(buffers_.SaveInput(1, 2), "saved_");
}

TEST_F(BuffersDeathTest, AnOperationThatHasBegunMayNotStillWaitForItsBuffers) {
  const int ops = static_cast<int>(plan_.schedule.ops.size());
  buffers_.Add({.kind = Program::kTrain, .first_op = 0, .num_ops = ops});
  const auto none = [](Buffer&) {};
  buffers_.Allocate(0, none);
  EXPECT_EQ(buffers_.Find(BufferUse::kWeights, 0, 0).state(), kAllocated);
  EXPECT_DEATH(buffers_.Find(BufferUse::kSums, 0, 0), "without a buffer");
  EXPECT_DEATH(buffers_.Add({.kind = Program::kTrain, .first_op = 0, .num_ops = ops}),
               "first_op < program.first_op");
  EXPECT_DEATH(buffers_.Allocate(ops, none), "buffer.first_op >= next_op");
}

TEST(TileOrderDeathTest, EveryTileIsThereOnce) {
  EXPECT_EQ(TileOrder({1, 3}, 4), (std::vector<int>{1, 3, 0, 2}));
  EXPECT_DEATH(TileOrder({1, 1}, 4), "order.size");
  EXPECT_DEATH(TileOrder({1, 4}, 4), "order.size");
}

}  // namespace
}  // namespace spillway
