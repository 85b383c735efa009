#include "engine/numeric/coded_moments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>

namespace spillway {
namespace {

constexpr CodedMoments<MomentFormat::kFloat8> kFloat8;

// From the definition: bit by bit, in double.
double Float8Value(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 7 - 3);
  return code < 128 ? magnitude : -magnitude;
}

bool IsNan(int code) { return (code & 0x7f) == 0x7f; }

TEST(Float8, ValuesAreThoseOfE4M3) {
  for (int code = 0; code < 256; ++code) {
    if (IsNan(code)) continue;
    EXPECT_EQ(FloatFromFloat8(code), Float8Value(code)) << code;
    EXPECT_EQ(Float8FromFloat(FloatFromFloat8(code)), code);
  }
  EXPECT_EQ(FloatFromFloat8(0x7e), 448);
}

// Every 997th float of at most 448, and those around every middle of two neighbours.
TEST(Float8, IsTheNearestAndOfTwoTheEvenOne) {
  const auto expect_nearest = [&](float value) {
    const int code = Float8FromFloat(value);
    const double error = std::abs(double{value} - Float8Value(code));
    for (const int other : {code - 1, code + 1}) {
      if (other < 0 || other > 255 || IsNan(other) || (other ^ code) > 127) continue;
      const double theirs = std::abs(double{value} - Float8Value(other));
      ASSERT_LE(error, theirs) << value;
      ASSERT_TRUE(error < theirs || code % 2 == 0) << value;
    }
    ASSERT_EQ(std::signbit(value), code > 127);
  };
  for (uint32_t bits = 0; bits <= BitsOf(448); bits += 997) {
    expect_nearest(FloatOfBits(bits));
    expect_nearest(-FloatOfBits(bits));
  }
  for (int code = 0; code < 0x7e; ++code) {
    const auto middle = static_cast<float>((Float8Value(code) + Float8Value(code + 1)) / 2);
    for (int off = -2; off <= 2; ++off) expect_nearest(FloatOfBits(BitsOf(middle) + off));
  }
}

TEST(DitheredFloat16, IsOneOfTheTwoAroundAndRightOnAverage) {
  for (const float value :
       {65503.0f, 1.0f, 0.3f, 1.0001e-3f, 6.2e-5f, 6.1e-5f, 3.33e-6f, 1.5e-7f}) {
    double sum = 0;
    std::set<float> drawn;
    constexpr int kDraws = 100000;
    for (int i = 0; i < kDraws; ++i) {
      const float one = FloatFromFloat16(DitheredFloat16(value, MixedBits(i)));
      drawn.insert(one);
      sum += one;
    }
    ASSERT_LE(drawn.size(), 2) << value;
    const float low = *drawn.begin(), high = *drawn.rbegin();
    EXPECT_LE(low, value);
    EXPECT_GE(high, value);
    EXPECT_LE(Float16FromFloat(high) - Float16FromFloat(low), 1);
    // Ten standard deviations of the mean, at most.
    EXPECT_NEAR(sum / kDraws, value, 10 * (high - low) / 600) << value;
  }
}

TEST(DitheredFloat16, WhatIsExactStaysAndNothingBecomesZero) {
  for (uint32_t half = 0; half <= 0x7bff; ++half) {
    for (const uint32_t random_bits : {0u, 0xffffffffu, 0x8234abcdu}) {
      ASSERT_EQ(DitheredFloat16(FloatFromFloat16(half), random_bits), half);
    }
  }
  EXPECT_EQ(DitheredFloat16(1e-12f, 0xffffffff), 1);
  EXPECT_EQ(DitheredFloat16(std::numeric_limits<float>::denorm_min(), 0xffffffff), 1);
}

TEST(CodedMoments, TheLargestOfABlockIsKeptExactly) {
  for (const float scale : {1.0f, 3.7e-12f, 2.5e30f, std::numeric_limits<float>::denorm_min()}) {
    EXPECT_EQ(kFloat8.Multiple1(kFloat8.Code1Of(scale, scale)) * scale, scale);
    EXPECT_EQ(kFloat8.Multiple1(kFloat8.Code1Of(-scale, scale)) * scale, -scale);
    for (const uint32_t bits : {0u, 0xffffffffu}) {
      EXPECT_EQ(kFloat8.Multiple2(kFloat8.Code2Of(scale, scale, bits)) * scale, scale);
    }
  }
}

// A step of E4M3 of the number, or of 2^-17 of the scale; of fp16, or of 2^-39.
TEST(CodedMoments, ErrorsInFp8AreThoseOfTheFormats) {
  const float scale = 5.3e-4f;
  for (int i = 1; i < 100000; ++i) {
    const float part = std::exp2(-40.0f * static_cast<float>(i) / 100000);
    const float value = part * scale;
    const double first = kFloat8.Multiple1(kFloat8.Code1Of(value, scale)) * scale;
    const double second = kFloat8.Multiple2(kFloat8.Code2Of(value, scale, MixedBits(i))) * scale;
    ASSERT_NEAR(first, value, std::max(value / 15.9, 0.501 * 0x1p-17 * scale)) << part;
    ASSERT_NEAR(second, value, std::max(value / 1023.0, 1.001 * 0x1p-39 * scale)) << part;
    ASSERT_GT(second, 0);
  }
}

TEST(CodedMoments, WhatIsNotFiniteHasSomeCode) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {infinity, -infinity, std::nanf("")}) {
    for (const float scale : {1.0f, infinity}) {
      kFloat8.Code1Of(value, scale);
      kFloat8.Code2Of(value, scale, 0x12345678);
    }
  }
}

}  // namespace
}  // namespace spillway
