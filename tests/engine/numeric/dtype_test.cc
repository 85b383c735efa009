#include "engine/numeric/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace spillway {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double HalfValue(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const double fraction = half & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

TEST(DType, NamesGoBothWays) {
  EXPECT_EQ(DTypeName(DType::kBFloat16), "bf16");
  EXPECT_EQ(DTypeFromName("fp16"), DType::kFloat16);
  EXPECT_EQ(DTypeFromName("fp32"), DType::kFloat32);
  EXPECT_EQ(DTypeFromName("float"), std::nullopt);
  EXPECT_EQ(DTypeBytes(DType::kFloat32), 4);
  EXPECT_EQ(DTypeBytes(DType::kFloat16), 2);
}

TEST(Float16, EveryValueIsConvertedExactlyAndComesBack) {
  for (uint32_t half = 0; half <= 0xffff; ++half) {
    const float value = FloatFromFloat16(half);
    if ((half & 0x7fff) > 0x7c00) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_EQ(Float16FromFloat(value), 0x7e00 | (half & 0x8000));
    } else {
      if ((half & 0x7fff) == 0x7c00) {
        EXPECT_EQ(value, half & 0x8000 ? -kInfinity : kInfinity);
      } else {
        EXPECT_EQ(value, HalfValue(half));
      }
      EXPECT_EQ(std::signbit(value), (half & 0x8000) != 0);
      EXPECT_EQ(Float16FromFloat(value), half);
    }
  }
}

// Between every two neighbours: just below, at and just above the middle.
TEST(Float16, RoundsToNearestTiesToEven) {
  for (uint32_t half = 0; half < 0x7bff; ++half) {
    const float middle = static_cast<float>((HalfValue(half) + HalfValue(half + 1)) / 2);
    const uint16_t even = half % 2 == 0 ? half : half + 1;
    EXPECT_EQ(Float16FromFloat(middle), even);
    EXPECT_EQ(Float16FromFloat(-middle), even | 0x8000);
    EXPECT_EQ(Float16FromFloat(std::nextafterf(middle, 0)), half);
    EXPECT_EQ(Float16FromFloat(std::nextafterf(middle, kInfinity)), half + 1);
  }
}

TEST(Float16, OverflowsToInfinityFrom65520) {
  EXPECT_EQ(Float16FromFloat(65519.996f), 0x7bff);
  EXPECT_EQ(Float16FromFloat(65520.0f), 0x7c00);
  EXPECT_EQ(Float16FromFloat(-3e38f), 0xfc00);
  EXPECT_EQ(Float16FromFloat(kInfinity), 0x7c00);
  EXPECT_EQ(Float16FromFloat(1e-45f), 0);
}

TEST(BFloat16, RoundsToNearestTiesToEven) {
  for (uint32_t high = 0; high < 0x7f80; ++high) {
    const auto rounded = [high](uint32_t low) {
      return BFloat16FromFloat(std::bit_cast<float>((high << 16) | low));
    };
    EXPECT_EQ(rounded(0), high);
    EXPECT_EQ(rounded(0x7fff), high);
    EXPECT_EQ(rounded(0x8000), high % 2 == 0 ? high : high + 1);
    EXPECT_EQ(rounded(0x8001), high + 1);
    EXPECT_EQ(rounded(0xffff), high + 1);
    EXPECT_EQ(FloatFromBFloat16(high), std::bit_cast<float>(high << 16));
  }
}

TEST(BFloat16, KeepsInfinityAndNaN) {
  EXPECT_EQ(BFloat16FromFloat(-kInfinity), 0xff80);
  EXPECT_EQ(BFloat16FromFloat(std::numeric_limits<float>::max()), 0x7f80);
  // A NaN whose payload is in the low half must not become infinity.
  EXPECT_TRUE(
      std::isnan(FloatFromBFloat16(BFloat16FromFloat(std::bit_cast<float>(uint32_t{0x7f800001})))));
  EXPECT_TRUE(
      std::isnan(FloatFromBFloat16(BFloat16FromFloat(std::bit_cast<float>(uint32_t{0xffffffff})))));
}

}  // namespace
}  // namespace spillway
