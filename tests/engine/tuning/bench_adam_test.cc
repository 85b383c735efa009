#include "engine/tuning/bench_adam.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(AdamBench, MeasuresUpdateAndCopy) {
  for (int threads : {1, 2}) {
    const AdamBenchResult result = RunAdamBench(300'001, threads, /*repeats=*/3);
    EXPECT_EQ(result.parameters, 300'001);
    EXPECT_EQ(result.threads, threads);
    EXPECT_GT(result.seconds, 0);
    EXPECT_DOUBLE_EQ(result.bytes_per_second * result.seconds, 26.0 * 300'001);
    EXPECT_DOUBLE_EQ(result.memory_bytes_per_second * result.memory_seconds, 26.0 * 300'001);
    EXPECT_DOUBLE_EQ(result.fraction_of_memory,
                     result.bytes_per_second / result.memory_bytes_per_second);
  }
}

}  // namespace
}  // namespace spillway
