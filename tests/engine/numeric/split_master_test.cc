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
      const SplitMaster split = Split(std::bit_cast<float>(bits));
      ASSERT_EQ(std::bit_cast<uint32_t>(Join(split.weight, split.residual)), bits);
      ASSERT_EQ(split.residual, low);
    }
  }
}

TEST(SplitMaster, RoundTripsEveryLowHalf) {
  for (uint32_t high : {0x0000u, 0x3f80u, 0x3fffu, 0x7f7fu, 0x8000u, 0xbf80u}) {
    for (uint32_t low = 0; low <= 0xffff; ++low) {
      const uint32_t bits = (high << 16) | low;
      const SplitMaster split = Split(std::bit_cast<float>(bits));
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

}  // namespace
}  // namespace spillway
