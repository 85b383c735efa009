#include "engine/numeric/split_master.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace spillway {
namespace {

constexpr uint32_t kLows[] = {0,      1,      2,      0x3fff, 0x4000, 0x7ffe, 0x7fff,
                              0x8000, 0x8001, 0xbfff, 0xc000, 0xfffe, 0xffff};

TEST(SplitMaster, RoundTripsEveryHighHalfAtEveryBoundary) {
  for (uint32_t high = 0; high <= 0xffff; ++high) {
    for (uint32_t low : kLows) {
      const uint32_t bits = (high << 16) | low;
      const SplitMaster<uint16_t> split = Split(std::bit_cast<float>(bits));
      ASSERT_EQ(std::bit_cast<uint32_t>(Join(split.weight, split.residual)), bits);
      ASSERT_EQ(split.residual, low);
    }
  }
}

TEST(SplitMaster, RoundTripsEveryLowHalf) {
  for (uint32_t high : {0x0000u, 0x3f80u, 0x3fffu, 0x7f7fu, 0x8000u, 0xbf80u}) {
    for (uint32_t low = 0; low <= 0xffff; ++low) {
      const uint32_t bits = (high << 16) | low;
      const SplitMaster<uint16_t> split = Split(std::bit_cast<float>(bits));
      ASSERT_EQ(std::bit_cast<uint32_t>(Join(split.weight, split.residual)), bits);
    }
  }
}

// In exact arithmetic: fp32 neighbours of a bf16 interval are exact in double.
TEST(SplitMaster, WeightIsTheNearestBf16AndTiesGoAwayFromZero) {
  for (uint32_t high = 0; high < 0x7f7f; ++high) {
    const double below = std::bit_cast<float>(high << 16);
    const double above = std::bit_cast<float>((high + 1) << 16);
    for (uint32_t low : kLows) {
      const uint32_t bits = (high << 16) | low;
      const double master = std::bit_cast<float>(bits);
      const uint32_t nearest = master - below < above - master ? high : high + 1;
      ASSERT_EQ(Split(std::bit_cast<float>(bits)).weight, nearest);
      ASSERT_EQ(Split(-std::bit_cast<float>(bits)).weight, nearest | 0x8000);
    }
  }
}

TEST(SplitMaster, WeightsAreFiniteBelowTheFirstUnsplittableMagnitude) {
  const auto weight = [](uint32_t bits) {
    return FloatFromBFloat16(Split(std::bit_cast<float>(bits)).weight);
  };
  EXPECT_TRUE(std::isfinite(weight(kFirstUnsplittableMagnitude - 1)));
  EXPECT_TRUE(std::isinf(weight(kFirstUnsplittableMagnitude)));
}

TEST(SplitMaster, OfTwentyFourBitsHasAResidualOfEight) {
  for (uint32_t high = 0; high <= 0xffff; ++high) {
    for (uint32_t middle = 0; middle <= 0xff; ++middle) {
      const uint32_t bits = (high << 16) | (middle << 8);
      const auto split = Split<uint8_t>(std::bit_cast<float>(bits));
      ASSERT_EQ(split.weight, Split(std::bit_cast<float>(bits)).weight);
      ASSERT_EQ(std::bit_cast<uint32_t>(Join(split.weight, split.residual)), bits);
    }
  }
}

TEST(SplitMaster, OfTwentyFourBitsIsOneOfTheTwoAroundAsTheRandomByteHasIt) {
  for (const uint32_t bits : {0x3f8000ffu, 0xbf812380u, 0x3fffff01u, 0x00000001u, 0x7f7f7f00u}) {
    const float value = std::bit_cast<float>(bits);
    uint32_t up = 0;
    for (uint32_t byte = 0; byte <= 0xff; ++byte) {
      const uint32_t found = std::bit_cast<uint32_t>(DitheredMaster24(value, byte << 24 | 0x123));
      ASSERT_EQ(found & 0xff, 0u);
      ASSERT_TRUE(found >> 8 == bits >> 8 || found >> 8 == (bits >> 8) + 1);
      up += found >> 8 != bits >> 8;
    }
    EXPECT_EQ(up, bits & 0xff);
    const uint32_t nearest = std::bit_cast<uint32_t>(NearestMaster24(value));
    const bool odd = bits >> 8 & 1;  // of a tie
    EXPECT_EQ(nearest >> 8, (bits >> 8) + ((bits & 0xff) + odd > 0x80));
  }
  for (const uint32_t nan : {0x7fffffffu, 0xffffffffu, 0x7f800001u}) {
    EXPECT_TRUE(std::isnan(DitheredMaster24(std::bit_cast<float>(nan), 0xffffffff)));
  }
  EXPECT_TRUE(std::isinf(DitheredMaster24(std::bit_cast<float>(0x7f800000u), 0xffffffff)));
}

}  // namespace
}  // namespace spillway
