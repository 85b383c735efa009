#include "engine/tuning/bench_adam.h"

#include <gtest/gtest.h>

#include <chrono>

namespace spillway {
namespace {

TEST(AdamBench, MeasuresUpdateAndCopy) {
  constexpr double kParameters = 300'001, kBytes = 26 * kParameters;
  // No memory is as fast, nor is a cache.
  constexpr double kMostBytesPerSecond = 1e13;
  for (int threads : {1, 2}) {
    const auto start = std::chrono::steady_clock::now();
    const AdamBenchResult result = RunAdamBench(300'001, threads, /*repeats=*/3);
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(result.parameters, 300'001);
    EXPECT_EQ(result.threads, threads);
    // Two of three take no less than the median.
    EXPECT_LE((result.seconds + result.memory_seconds) * 2, wall.count());
    EXPECT_GT(result.seconds, kBytes / kMostBytesPerSecond);
    EXPECT_GT(result.memory_seconds, kBytes / kMostBytesPerSecond);
    EXPECT_DOUBLE_EQ(result.bytes_per_second * result.seconds, kBytes);
    EXPECT_DOUBLE_EQ(result.memory_bytes_per_second * result.memory_seconds, kBytes);
    EXPECT_DOUBLE_EQ(result.fraction_of_memory,
                     result.bytes_per_second / result.memory_bytes_per_second);
  }
}

}  // namespace
}  // namespace spillway
