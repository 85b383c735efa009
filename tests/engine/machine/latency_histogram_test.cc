#include "engine/machine/latency_histogram.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace spillway {
namespace {

TEST(LatencyHistogram, IsEmptyAtFirst) {
  const LatencySummary summary = LatencyHistogram().Summary();
  EXPECT_EQ(summary.count, 0);
  EXPECT_EQ(summary.p50_seconds, 0);
  EXPECT_EQ(summary.max_seconds, 0);
}

TEST(LatencyHistogram, OneValueIsEveryPercentile) {
  LatencyHistogram histogram;
  histogram.Add(123456789);
  const LatencySummary summary = histogram.Summary();
  EXPECT_EQ(summary.p50_seconds, summary.max_seconds);
  EXPECT_EQ(summary.p999_seconds, summary.max_seconds);
  EXPECT_DOUBLE_EQ(summary.max_seconds, 0.123456789);
}

TEST(LatencyHistogram, NeverBelowTheTruthAndAtMostOne64thAbove) {
  std::mt19937_64 random(1);
  for (const int bits : {3, 8, 20, 34, 62}) {
    LatencyHistogram histogram;
    std::vector<int64_t> values;
    for (int i = 0; i < 1000; ++i) {
      values.push_back(static_cast<int64_t>(random() >> (64 - bits)));
      histogram.Add(values.back());
    }
    std::sort(values.begin(), values.end());
    for (const int rank : {1, 500, 900, 990, 999, 1000}) {
      const int64_t truth = values[static_cast<size_t>(rank - 1)];
      const int64_t answer = histogram.Percentile(rank / 1000.0);
      EXPECT_GE(answer, truth) << bits << " bits, rank " << rank;
      EXPECT_LE(answer, truth + truth / 64) << bits << " bits, rank " << rank;
    }
  }
}

TEST(LatencyHistogram, AClockThatWentBackIsZero) {
  LatencyHistogram histogram;
  histogram.Add(-5);
  EXPECT_EQ(histogram.Percentile(1), 0);
}

}  // namespace
}  // namespace spillway
