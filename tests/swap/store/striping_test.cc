#include "swap/store/striping.h"

#include <algorithm>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace spillway {
namespace {

TEST(Striping, EqualPiecesOnEqualPathsGoRoundInTurn) {
  for (const double rate : {1.0, 2.5e9}) {
    Striping striping({rate, rate, rate});
    for (int i = 0; i < 12; ++i) EXPECT_EQ(striping.Next(4096), i % 3);
  }
}

// Whatever is read in order, every path is through with its part at about the same time.
TEST(Striping, EveryRunOfNeighboursIsSpreadByRate) {
  const std::vector<double> rates = {3.1e9, 0.4e9, 1.7e9};
  double sum = 0;
  for (const double rate : rates) sum += rate;
  std::mt19937 random(7);
  Striping striping(rates);
  std::vector<std::vector<double>> dealt = {{0, 0, 0}};  // bytes by path after each piece
  double largest = 0;
  for (int i = 0; i < 2000; ++i) {
    const uint64_t bytes = 4096 * (1 + random() % 64);
    largest = std::max(largest, static_cast<double>(bytes));
    dealt.push_back(dealt.back());
    dealt.back()[striping.Next(bytes)] += static_cast<double>(bytes);
  }
  for (size_t begin = 0; begin < dealt.size(); begin += 37) {
    for (size_t end = begin; end < dealt.size(); end += 41) {
      double bytes = 0;
      for (int path = 0; path < 3; ++path) bytes += dealt[end][path] - dealt[begin][path];
      for (int path = 0; path < 3; ++path) {
        const double got = dealt[end][path] - dealt[begin][path];
        EXPECT_NEAR(got, bytes * rates[path] / sum, 3 * largest) << begin << ".." << end;
      }
    }
  }
}

TEST(Striping, AnUnknownRateIsAnOrdinaryOne) {
  for (const double unknown : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    Striping striping({1, unknown, 3});
    std::vector<int> counts(3);
    for (int i = 0; i < 600; ++i) ++counts[striping.Next(4096)];
    EXPECT_NEAR(counts[0], 100, 2);
    EXPECT_NEAR(counts[1], 200, 2);
    EXPECT_NEAR(counts[2], 300, 2);
  }
  Striping unknown({0, 0});
  EXPECT_EQ(unknown.Next(1), 0);
  EXPECT_EQ(unknown.Next(1), 1);
}

TEST(Striping, OnePathTakesEverything) {
  Striping striping({5});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(striping.Next(1 << i), 0);
}

}  // namespace
}  // namespace spillway
