#include "io/block_engine.h"

#include <cerrno>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/io/block_queue_fixture.h"

namespace spillway {
namespace {

// Transfers of one file make no progress for a while; all others end at once.
class StuckEngine final : public BlockEngine {
 public:
  StuckEngine(const File* stuck, int for_tries)
      : BlockEngine({.block_bytes = 4096, .depth = 4}), stuck_(stuck), for_tries_(for_tries) {}

  void Wake() override {}
  absl::string_view name() const override { return "stuck"; }
  int tries() const { return tries_; }

 private:
  void Start(IoBlock* block) override { started_.push_back(block); }
  void Flush() override {}
  bool Exchange(absl::Duration wait) override {
    if (started_.empty()) absl::SleepFor(wait);
    for (IoBlock* block : std::exchange(started_, {})) {
      const bool stuck = block->request->file == stuck_ && tries_++ < for_tries_;
      queue().Returned(block, stuck ? -EAGAIN : static_cast<int64_t>(block->size_bytes));
    }
    return false;
  }

  const File* const stuck_;
  const int for_tries_;
  int tries_ = 0;
  std::vector<IoBlock*> started_;
};

using BlockEngineTest = BlockQueueTest;

TEST_F(BlockEngineTest, AStuckFileDoesNotHoldUpTheOthers) {
  constexpr int kTransfers = 3000;
  StuckEngine engine(direct_.get(), /*for_tries=*/kTransfers / 2);
  Recorded stuck(direct_.get(), IoOp::kRead, 0, memory_.data(), 4096);
  engine.Submit(&stuck);
  Recorded other(file_.get(), IoOp::kRead, 0, memory_.data() + 4096, 4096);
  // One after the other: each would wait for the pause of what is stuck.
  for (int i = 0; i < kTransfers; ++i) {
    engine.Submit(&other);
    while (other.calls == i) engine.Poll(absl::Seconds(1));
  }
  EXPECT_EQ(stuck.calls, 0) << engine.tries();
  EXPECT_LT(engine.tries(), kTransfers / 2);
}

TEST_F(BlockEngineTest, PollWaitsNoLongerThanUntilTheNextTry) {
  StuckEngine engine(direct_.get(), /*for_tries=*/30);
  Recorded stuck(direct_.get(), IoOp::kRead, 0, memory_.data(), 4096);
  engine.Submit(&stuck);
  const absl::Time began = absl::Now();
  EXPECT_EQ(engine.Poll(absl::Seconds(60)), 1);
  EXPECT_LT(absl::Now() - began, absl::Seconds(30));
  EXPECT_TRUE(stuck.result.ok()) << stuck.result;
  EXPECT_EQ(engine.tries(), 31);
}

}  // namespace
}  // namespace spillway
