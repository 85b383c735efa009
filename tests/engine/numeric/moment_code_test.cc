#include "engine/numeric/moment_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace spillway {
namespace {

uint32_t CodeOf(bool is_signed, float value, float scale) {
  return is_signed ? MomentCodeOf<true>(kSignedMomentCode, value, scale)
                   : MomentCodeOf<false>(kUnsignedMomentCode, value, scale);
}

TEST(MomentCode, ValuesAreBitsandbytes) {
  const nlohmann::json golden =
      nlohmann::json::parse(std::ifstream(SPILLWAY_SOURCE_DIR "/tests/golden/moments.json"));
  for (uint32_t code = 0; code < 256; ++code) {
    EXPECT_EQ(BitsOf(kSignedMomentCode.values[code]), golden["signed"][code]) << code;
    EXPECT_EQ(BitsOf(kUnsignedMomentCode.values[code]), golden["unsigned"][code]) << code;
  }
}

TEST(MomentCode, AValueIsItsOwnCode) {
  for (uint32_t code = 0; code < 256; ++code) {
    EXPECT_EQ(CodeOf(true, kSignedMomentCode.values[code], 1), code);
    EXPECT_EQ(CodeOf(false, kUnsignedMomentCode.values[code], 1), code);
  }
}

// Every 1,009th float in [-1, 1], and those around every limit between two codes.
TEST(MomentCode, NoOtherCodeIsNearer) {
  for (const bool is_signed : {false, true}) {
    const float(&values)[256] = is_signed ? kSignedMomentCode.values : kUnsignedMomentCode.values;
    const auto expect_nearest = [&](float value) {
      const uint32_t code = CodeOf(is_signed, value, 1);
      const double error = std::abs(double{value} - values[code]);
      for (const uint32_t other : {code - 1, code + 1}) {
        if (other > 255) continue;
        ASSERT_LE(error, std::abs(double{value} - values[other])) << value;
      }
    };
    for (uint32_t bits = 0; bits <= 0x3f800000; bits += 1009) {
      expect_nearest(FloatOfBits(bits));
      if (is_signed) expect_nearest(-FloatOfBits(bits));
    }
    for (uint32_t code = 0; code < 255; ++code) {
      const float middle = (values[code] + values[code + 1]) / 2;
      for (int off = -2; off <= 2; ++off) expect_nearest(FloatOfBits(BitsOf(middle) + off));
    }
  }
}

TEST(MomentCode, ADitheredValueIsRightOnAverage) {
  const MomentCode& code = kUnsignedMomentCode;
  for (const float value : {0.9f, 0.15f, 0.0123f, 3e-4f, 2.5e-6f}) {
    const float scale = 7;
    double sum = 0;
    uint32_t least = 255, most = 0;
    constexpr int kDraws = 100000;
    for (int i = 0; i < kDraws; ++i) {
      const uint32_t drawn = DitheredCodeOf(code, value * scale, scale, MixedBits(i));
      sum += code.values[drawn];
      least = std::min(least, drawn), most = std::max(most, drawn);
    }
    EXPECT_EQ(most, least + 1) << value;
    EXPECT_LE(code.values[least], value);
    EXPECT_GE(code.values[most], value);
    // Ten standard deviations of the mean, at most.
    EXPECT_NEAR(sum / kDraws, value, 10 * (code.values[most] - code.values[least]) / 600) << value;
  }
}

TEST(MomentCode, WhatNeedsNoRoundingIsNotDithered) {
  for (uint32_t i = 0; i < 1000; ++i) {
    for (const uint32_t at : {0, 1, 77, 254, 255}) {
      EXPECT_EQ(
          DitheredCodeOf(kUnsignedMomentCode, kUnsignedMomentCode.values[at], 1, MixedBits(i)), at);
    }
    EXPECT_EQ(DitheredCodeOf(kUnsignedMomentCode, 1e-12f, 1, MixedBits(i)), 1);
  }
}

TEST(MomentCode, WhatIsDividedByItsScaleMayBeSubnormal) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(CodeOf(true, tiny, tiny), 255);
  EXPECT_EQ(CodeOf(true, 0, tiny), 127);
  EXPECT_EQ(CodeOf(false, tiny, 2 * tiny), CodeOf(false, 0.5f, 1));
}

TEST(MomentCode, WhatIsNotFiniteHasSomeCode) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {infinity, -infinity, std::nanf("")}) {
    EXPECT_LT(CodeOf(true, value, infinity), 256);
    EXPECT_LT(CodeOf(false, value, 1), 256);
    EXPECT_LT(DitheredCodeOf(kUnsignedMomentCode, value, infinity, 0x12345678), 256);
  }
}

}  // namespace
}  // namespace spillway
