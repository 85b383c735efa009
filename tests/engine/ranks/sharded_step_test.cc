#include "engine/ranks/sharded_step.h"

#include <cmath>
#include <thread>

#include "engine/ranks/collective_traffic.h"
#include "gtest/gtest.h"
#include "tests/engine/ranks/sharded_run.h"
#include "tests/sanitizers.h"

namespace spillway {
namespace {

TEST(ShardedStep, EveryModeHasTheBitsOfTheDefinition) {
  for (int seed = 0; seed < Rounds(12); ++seed) {
    const Shape shape = RandomShapeOf(seed);
    for (int size : {2, 3, 4}) {
      const Outcome expected = Reference(shape, size);
      for (int group : {1, size}) {
        for (GatheredWeights gathered :
             {GatheredWeights::kForOneUse, GatheredWeights::kForOneStep}) {
          const Outcome got = RunAll(shape, size, group, gathered);
          ASSERT_EQ(got.weights, expected.weights) << seed << " " << size << "/" << group;
          if (shape.update == UpdateMode::kDeferred) {
            EXPECT_EQ(got.squares, expected.squares);
          }
        }
      }
    }
  }
}

// Two stages: other sums, but the same whatever the buckets.
TEST(ShardedStep, HybridShardingDoesNotDependOnBuckets) {
  for (uint32_t seed = 20; seed < 26; ++seed) {
    Shape shape = RandomShapeOf(seed);
    const Outcome once = RunAll(shape, 4, 2, GatheredWeights::kForOneUse);
    shape.bucket = 3 * kExchangeBlock;
    const Outcome again = RunAll(shape, 4, 2, GatheredWeights::kForOneUse);
    EXPECT_EQ(once.weights, again.weights);
    EXPECT_EQ(once.squares, again.squares);
    const Outcome near = RunAll(shape, 4, 4, GatheredWeights::kForOneUse);
    double worst = 0;
    for (size_t u = 0; u < near.weights.size(); ++u) {
      for (size_t i = 0; i < near.weights[u].size(); ++i) {
        worst = std::max<double>(worst, std::abs(near.weights[u][i] - once.weights[u][i]));
      }
    }
    EXPECT_LT(worst, 0.05);
  }
}

// What a step sends, by the formula: weights to the rest of the group at every gather, sums to
// everybody once; of shards with replicas the summed portions again.
TEST(ShardedStep, SendsWhatTheFormulaSays) {
  Shape shape;
  shape.units = {8192, 40960, 40960, 8192};
  shape.borrows = {{}, {}, {}, {}};
  shape.steps = 1;
  const uint64_t bytes = (8192 + 40960 + 40960 + 8192) * 4;
  const auto sent = [&](int group, GatheredWeights gathered) {
    return RunAll(shape, 4, group, gathered).sent_bytes[1];
  };
  const uint64_t sums = bytes * 3 / 4;
  EXPECT_EQ(sent(1, GatheredWeights::kForOneUse), sums + bytes * 3 / 4);
  EXPECT_EQ(sent(4, GatheredWeights::kForOneStep), sums + bytes * 3 / 4);
  // The last units' stay from forward to backward: the loss' and the one before it.
  EXPECT_EQ(sent(4, GatheredWeights::kForOneUse),
            sums + bytes * 3 / 4 + (8192 + 40960) * 4 * 3 / 4);
}

// The formula that estimates print, on every rank.
TEST(ShardedStep, SendsWhatAnEstimateCounts) {
  for (int seed = 30; seed < 30 + Rounds(8); ++seed) {
    Shape shape = RandomShapeOf(seed);
    shape.steps = 1;
    shape.update = UpdateMode::kDeferred;  // all is sent when the norm is known
    for (const ExchangeFormat format :
         {ExchangeFormat::kFloat32, ExchangeFormat::kBFloat16, ExchangeFormat::kFloat8}) {
      shape.format = format;
      for (int group : {1, 2, 4}) {
        for (GatheredWeights gathered :
             {GatheredWeights::kForOneUse, GatheredWeights::kForOneStep}) {
          const ShardGrid grid{4, group, 0};
          std::vector<uint64_t> padded;
          for (uint64_t parameters : shape.units) padded.push_back(grid.UnitParameters(parameters));
          const CollectiveTraffic expected = CollectiveBytes(
              BuildShardedSchedule(BuildTrainSchedule({shape.borrows}, shape.update), gathered,
                                   padded, 4),
              {grid, shape.bucket, format, kTile});
          EXPECT_EQ(expected.gather_bytes > 0, group > 1);
          for (uint64_t sent : RunAll(shape, 4, group, gathered).sent_bytes) {
            EXPECT_EQ(sent, expected.total_bytes())
                << seed << " " << group << " " << ExchangeFormatName(format);
          }
        }
      }
    }
  }
}

TEST(ShardedStep, ARankThatIsGoneEndsTheOthers) {
  Shape shape = RandomShapeOf(3);
  shape.steps = 4;
  for (int calls = 0; calls < 12; ++calls) {
    Conversations conversations(3, 3);
    conversations.groups[0]->FailAfter(1, calls);
    Outcome outcome;
    outcome.sent_bytes.resize(3);
    for (uint64_t parameters : shape.units) outcome.weights.emplace_back(parameters);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        const absl::Status status =
            RunRank(shape, {3, 3, rank}, GatheredWeights::kForOneUse, conversations, outcome);
        EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsCancelled(status)) << status;
        // What a process that ends does to its other conversations.
        conversations.world.rank(rank)->Abort();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(ShardedStep, ComputeHidesWhatIsExchanged) {
  Shape shape;
  for (int u = 0; u < 24; ++u) {
    shape.units.push_back(2048);
    shape.borrows.emplace_back();
  }
  shape.bucket = 1 << 20;
  shape.steps = 1;
  const auto seconds = [&](int delay_ms) {
    Conversations conversations(2, 2);
    conversations.SetDelay(std::chrono::milliseconds(delay_ms));
    Outcome outcome;
    outcome.sent_bytes.resize(2);
    for (uint64_t parameters : shape.units) outcome.weights.emplace_back(parameters);
    const auto began = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        EXPECT_EQ(RunRank(shape, {2, 2, rank}, GatheredWeights::kForOneUse, conversations, outcome,
                          {.takes = std::chrono::milliseconds(50)}),
                  absl::OkStatus());
      });
    }
    for (std::thread& thread : threads) thread.join();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  // 70 exchanges: 24 + 22 gathers and 24 sums, one or two during every operation of 50 ms.
  const double added = 70 * 0.020;
  double grown = 1e9;
  for (int attempt = 0; attempt < 3 && grown > 0.25 * added; ++attempt) {
    grown = std::min(grown, seconds(20) - seconds(0));
  }
  EXPECT_LT(grown, 0.25 * added);
}

}  // namespace
}  // namespace spillway
