// Units that are whole in a device's memory: the same bits as in the host's.
#include "gtest/gtest.h"
#include "tests/engine/ranks/sharded_run.h"
#include "tests/sanitizers.h"

namespace spillway {
namespace {

TEST(ShardedStepOnDevice, EveryModeHasTheBitsOfTheHostsMemory) {
  for (int seed = 0; seed < Rounds(6); ++seed) {
    const Shape shape = RandomShapeOf(seed);
    for (int size : {2, 3, 4}) {
      for (int group = 1; group <= size; ++group) {
        if (size % group != 0) continue;
        for (GatheredWeights gathered :
             {GatheredWeights::kForOneUse, GatheredWeights::kForOneStep}) {
          const Outcome expected = RunAll(shape, size, group, gathered);
          const Outcome got = RunAll(shape, size, group, gathered, seed * 100);
          ASSERT_EQ(got.weights, expected.weights) << seed << " " << size << "/" << group;
          ASSERT_EQ(got.squares, expected.squares) << seed << " " << size << "/" << group;
        }
      }
    }
  }
}

TEST(ShardedStepOnDevice, ADeviceThatBreaksEndsAllRanks) {
  Shape shape = RandomShapeOf(3);
  shape.steps = 4;
  for (int launches = 0; launches < 12; ++launches) {
    Conversations conversations(2, 2);
    Outcome outcome;
    outcome.sent_bytes.resize(2);
    for (uint64_t parameters : shape.units) outcome.weights.emplace_back(parameters);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        TestDevice device({.seed = static_cast<uint64_t>(launches), .ops_are_launched = true});
        if (rank == 1) {
          for (int i = 0; i < launches * 10; ++i) device.Record(StreamId::kExchange);
          device.Launch(StreamId::kExchange,
                        [](void*) { return absl::InternalError("the fan fell off"); });
        }
        const absl::Status status = RunRank(shape, {2, 2, rank}, GatheredWeights::kForOneUse,
                                            conversations, outcome, {.device = &device});
        EXPECT_FALSE(status.ok());
        if (rank == 1) {
          EXPECT_EQ(status.message(), "the fan fell off");
        }
        conversations.world.rank(rank)->Abort();
        conversations.groups[0]->rank(rank)->Abort();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace spillway
