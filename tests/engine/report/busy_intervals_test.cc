#include "engine/report/busy_intervals.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(BusyIntervals, IsTheUnionInAnyOrder) {
  BusyIntervals busy;
  busy.Add(50, 60);
  busy.Add(10, 20);
  busy.Add(15, 30);
  busy.Add(30, 31);
  busy.Add(40, 40);  // nothing
  EXPECT_THAT(busy.pieces(), ElementsAre(Pair(10, 31), Pair(50, 60)));
  EXPECT_EQ(busy.busy_ns(), 31);
  busy.Add(5, 100);
  EXPECT_THAT(busy.pieces(), ElementsAre(Pair(5, 100)));
  busy.Clip(20, 70);
  EXPECT_THAT(busy.pieces(), ElementsAre(Pair(20, 70)));
  busy.Clip(80, 90);
  EXPECT_TRUE(busy.pieces().empty());
}

TEST(BusyIntervals, ManyBecomeFewAndLookTheSame) {
  BusyIntervals busy;
  // A hundred thousand short pieces in the first tenth, a lone one far behind.
  for (int64_t i = 0; i < 100000; ++i) busy.Add(i * 100, i * 100 + 60);
  busy.Add(90'000'000, 90'001'000);
  EXPECT_LE(busy.pieces().size(), BusyIntervals::kMostPieces);
  EXPECT_THAT(busy.pieces().back(), Pair(90'000'000, 90'001'000));
  EXPECT_EQ(busy.pieces().front().first, 0);
  // Nothing in the wide gap between.
  EXPECT_LT(busy.pieces()[busy.pieces().size() - 2].second, 10'001'000);
  for (size_t i = 1; i < busy.pieces().size(); ++i) {
    EXPECT_GT(busy.pieces()[i].first, busy.pieces()[i - 1].second);
  }
}

TEST(BusyIntervals, ARandomUnionIsRight) {
  std::mt19937 random(5);
  BusyIntervals busy;
  std::vector<bool> covered(2000);
  for (int i = 0; i < 200; ++i) {
    const int64_t begin = random() % 1900, end = begin + 1 + random() % 20;
    busy.Add(begin, end);
    for (int64_t at = begin; at < end; ++at) covered[at] = true;
  }
  EXPECT_EQ(busy.busy_ns(), std::count(covered.begin(), covered.end(), true));
}

TEST(ByteBins, SpreadsBytesAndKeepsTheirSum) {
  ByteBins bins(1000);
  bins.Add(1000, 1000 + 2 * bins.width_ns(), 600);
  ASSERT_EQ(bins.bins().size(), 2u);
  EXPECT_DOUBLE_EQ(bins.bins()[0], 300);
  bins.Add(500, 1500, 100);  // half of it before the beginning
  EXPECT_DOUBLE_EQ(bins.bins()[0], 350);
  const int64_t width = bins.width_ns();
  bins.Add(1000 + 3'000'000'000, 1000 + 3'000'000'000, 50);
  EXPECT_LE(bins.bins().size(), ByteBins::kMostBins);
  EXPECT_GT(bins.width_ns(), width);
  EXPECT_NEAR(std::accumulate(bins.bins().begin(), bins.bins().end(), 0.0), 700, 1e-6);
  EXPECT_NEAR(bins.bins()[0], 650, 1e-6);
  EXPECT_NEAR(bins.bins()[3'000'000'000 / bins.width_ns()], 50, 1e-6);
}

}  // namespace
}  // namespace spillway
