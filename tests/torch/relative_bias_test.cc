#include "engine/layers/relative_bias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <vector>

namespace spillway {
namespace {

std::vector<int64_t> Buckets(int64_t queries, int64_t keys, int64_t buckets, int64_t farthest,
                             bool causal) {
  const torch::Tensor found = BucketsOfDistances(queries, keys, buckets, farthest, causal);
  return {found.const_data_ptr<int64_t>(), found.const_data_ptr<int64_t>() + found.numel()};
}

// By transformers' T5Attention._relative_position_bucket.
TEST(RelativeBias, NearDistancesHaveABucketEach) {
  EXPECT_THAT(Buckets(4, 3, 8, 12, /*causal=*/true), testing::ElementsAre(3, 2, 1, 0, 0, 0));
  EXPECT_THAT(Buckets(3, 4, 8, 12, /*causal=*/false), testing::ElementsAre(2, 1, 0, 5, 6, 6));
}

TEST(RelativeBias, FarOnesShareTheLast) {
  const std::vector<int64_t> causal = Buckets(200, 1, 32, 128, true);
  EXPECT_EQ(causal.front(), 31);
  EXPECT_EQ(causal[199 - 128], 31);
  EXPECT_EQ(causal[199 - 16], 16);
  EXPECT_EQ(causal[199 - 15], 15);
  const std::vector<int64_t> both = Buckets(200, 200, 32, 128, false);
  EXPECT_EQ(both.front(), 15);
  EXPECT_EQ(both.back(), 31);
  EXPECT_EQ(both[199 + 1], 17);
  EXPECT_EQ(both[199 - 1], 1);
}

}  // namespace
}  // namespace spillway
