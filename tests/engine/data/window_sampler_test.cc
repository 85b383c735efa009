#include "engine/data/window_sampler.h"

#include <algorithm>
#include <numeric>

#include "gtest/gtest.h"

namespace spillway {
namespace {

TEST(WindowSampler, CountsWholeWindowsWithTheirLabel) {
  EXPECT_EQ(WindowCount(0, 4), 0);
  EXPECT_EQ(WindowCount(4, 4), 0);
  EXPECT_EQ(WindowCount(5, 4), 1);
  EXPECT_EQ(WindowCount(8, 4), 1);
  EXPECT_EQ(WindowCount(9, 4), 2);
}

TEST(WindowSampler, SequentialGoesRoundAndRound) {
  EXPECT_EQ(SamplesFrom(SampleOrder::kSequential, 1, 5, 0, 3), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(SamplesFrom(SampleOrder::kSequential, 1, 5, 3, 3), (std::vector<int64_t>{3, 4, 0}));
}

TEST(WindowSampler, ShuffledEpochsArePermutationsThatDiffer) {
  constexpr int64_t kSize = 1000;
  const auto epoch = [&](uint64_t seed, int64_t e) {
    std::vector<int64_t> samples;
    for (int64_t n = e * kSize; n < (e + 1) * kSize; ++n) {
      samples.push_back(SampleIndex(SampleOrder::kShuffle, seed, kSize, n));
    }
    return samples;
  };
  std::vector<int64_t> all(kSize);
  std::iota(all.begin(), all.end(), 0);
  std::vector<int64_t> sorted = epoch(42, 0);
  EXPECT_NE(sorted, all);
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, all);
  EXPECT_EQ(epoch(42, 1), epoch(42, 1));
  EXPECT_NE(epoch(42, 0), epoch(42, 1));
  EXPECT_NE(epoch(42, 0), epoch(43, 0));
}

TEST(WindowSampler, StepsCoverTheEpochs) {
  EXPECT_EQ(StepsForEpochs(1, 10, 5), 2);
  EXPECT_EQ(StepsForEpochs(1, 11, 5), 3);
  EXPECT_EQ(StepsForEpochs(2.5, 10, 5), 5);
  EXPECT_EQ(StepsForEpochs(0.001, 10, 5), 1);
  EXPECT_EQ(StepsForEpochs(1e300, 10, 5), int64_t{1} << 62);
  // Ten samples are left of forty, after three steps of ten.
  EXPECT_EQ(StepsForEpochs(1, 40, 10, {3, 30}), 4);
  EXPECT_EQ(StepsForEpochs(1, 40, 4, {3, 30}), 6);
  EXPECT_EQ(StepsForEpochs(1, 40, 10, {3, 45}), 3);
}

}  // namespace
}  // namespace spillway
