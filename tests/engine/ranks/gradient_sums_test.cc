#include "engine/ranks/gradient_sums.h"

#include <thread>
#include <vector>

#include "engine/numeric/optimizer.h"
#include "engine/numeric/optimizer_state.h"
#include "engine/ranks/shard_plan.h"
#include "gtest/gtest.h"
#include "tests/engine/ranks/thread_ranks.h"

namespace spillway {
namespace {

constexpr uint64_t kPortionParameters = 8192, kTileParameters = 2048;
constexpr int kSteps = 5;

// What is kept for the norm after some steps of two ranks with all state each, of whose gradients
// every number is 1.
GradientPartial KeptAfterSteps(bool norm_is_taken) {
  ThreadRanks replicas(2);
  GradientPartial kept;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const GradientSumOptions options = {.grid = {2, 1, rank},
                                          .bucket_parameters = 1024,
                                          .tile_parameters = kTileParameters,
                                          .norm_is_taken = norm_is_taken};
      const OptimizerSpec spec;
      const StateLayout layout({{"u", kPortionParameters}}, StatePlanes(spec, DType::kFloat32), 4,
                               kTileParameters);
      OptimizerTiles tiles(spec, DType::kFloat32, layout, {{}});
      std::vector<char> memory(GradientSums::MemoryBytes(options));
      GradientSums sums(options, nullptr, replicas.rank(rank), &tiles, {}, memory.data());
      const std::vector<float> own(kPortionParameters, 0.5f);
      std::vector<float> sum(kPortionParameters);
      for (int step = 0; step < kSteps; ++step) {
        EXPECT_EQ(sums.Sum(0, own.data(), kPortionParameters, sum.data()), absl::OkStatus());
        EXPECT_EQ(sum, std::vector<float>(kPortionParameters, 1));
      }
      const GradientPartial portions = sums.TakePortions();
      if (rank == 0) kept = portions;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return kept;
}

TEST(GradientSums, KeepNothingForANormThatNobodyTakes) {
  EXPECT_EQ(KeptAfterSteps(true).sum_of_squares, kSteps * kPortionParameters / 2);
  EXPECT_EQ(KeptAfterSteps(false).sum_of_squares, 0);
}

TEST(GradientSums, TheNormIsTakenWhereUpdatesAreDeferred) {
  const StateLayout layout({{"u", kPortionParameters}},
                           StatePlanes(OptimizerSpec(), DType::kFloat32), 4, kTileParameters);
  for (const UpdateMode update : {UpdateMode::kDeferred, UpdateMode::kImmediate}) {
    RankOptions options;
    options.ranks = 2;
    options.shard = Shard::kNone;
    const ShardedStep::Options shards =
        PlanShards(layout, BuildTrainSchedule({{{}}}, update), options, false);
    EXPECT_EQ(shards.sums.norm_is_taken, update == UpdateMode::kDeferred);
  }
}

}  // namespace
}  // namespace spillway
