#include "engine/tuning/tune_choice.h"

#include "gtest/gtest.h"

namespace spillway {
namespace {

TEST(TuneChoice, AScoreIsTheRateOfMovingAsMuchEachWay) {
  EXPECT_DOUBLE_EQ(Score({2, 2, 2}), 2);
  // A byte in each of the three ways: 1/4 + 1/1 + 1/2 seconds.
  EXPECT_DOUBLE_EQ(Score({4, 1, 2}), 3 / 1.75);
}

TEST(TuneChoice, MediansOfOddAndEvenCounts) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
  const DiskRates rates = MedianRates({{1, 20, 5}, {3, 10, 7}, {2, 30, 6}});
  EXPECT_EQ(rates, (DiskRates{2, 20, 6}));
}

TEST(TuneChoice, ADiskThatSlowsDownBetweenRoundsChangesNothing) {
  // The second is a tenth faster, always; the disk halves its speed twice.
  const auto relative = RelativeScores({{1000, 500, 250}, {1100, 550, 275}, {900, 450, 225}});
  EXPECT_NEAR(relative[0], 1.0, 1e-9);
  EXPECT_NEAR(relative[1], 1.1, 1e-9);
  EXPECT_NEAR(relative[2], 0.9, 1e-9);
}

TEST(TuneChoice, OneLuckyOrUnluckyRoundDecidesNothing) {
  const auto relative = RelativeScores(
      {{100, 100, 900, 100, 100}, {110, 110, 110, 5, 110}, {105, 105, 105, 105, 105}});
  EXPECT_EQ(ChooseCandidate(relative, {1, 1, 1}), 1u);
}

TEST(TuneChoice, WithinNoiseTheCheapestWinsAndBeyondItTheFastest) {
  EXPECT_EQ(ChooseCandidate({0.98, 1.0, 0.99}, {5, 9, 7}), 0u);
  EXPECT_EQ(ChooseCandidate({0.96, 1.0, 0.98}, {5, 9, 7}), 2u);
  EXPECT_EQ(ChooseCandidate({0.96, 1.0, 0.96}, {5, 9, 7}), 1u);
  EXPECT_EQ(ChooseCandidate({0.99, 1.0, 0.98}, {5, 5, 5}), 0u);  // of equals the first
  EXPECT_EQ(ChooseCandidate({1.0}, {5}), 0u);
}

}  // namespace
}  // namespace spillway
