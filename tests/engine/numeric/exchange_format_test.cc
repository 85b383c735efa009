#include "engine/numeric/exchange_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "engine/numeric/number_formats.h"
#include "tests/engine/numeric/simd_targets.h"

namespace spillway {
namespace {

// What another rank gets.
std::vector<float> Sent(ExchangeFormat format, const std::vector<float>& sums) {
  std::vector<char> bytes(ExchangedBytes(format, sums.size()));
  EncodeSums(format, sums.data(), sums.size(), bytes.data());
  std::vector<float> got(sums.size(), NAN);
  AddExchanged(format, bytes.data(), sums.size(), got.data(), /*first=*/true);
  return got;
}

TEST(ExchangeFormat, TakesAByteASumAndAScaleABlock) {
  EXPECT_EQ(ExchangedBytes(ExchangeFormat::kFloat32, 1000), 4000u);
  EXPECT_EQ(ExchangedBytes(ExchangeFormat::kBFloat16, 1000), 2000u);
  EXPECT_EQ(ExchangedBytes(ExchangeFormat::kFloat8, 1024), 1024u + 4 * 4);
  EXPECT_EQ(ExchangedBytes(ExchangeFormat::kFloat8, 1001), 1004u + 4 * 4);
  EXPECT_EQ(ExchangedBytes(ExchangeFormat::kFloat8, 0), 0u);
}

TEST(ExchangeFormat, EightBitsKeepEverySumWithinASixteenthOfItOrAStepOfItsBlock) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (size_t count : {1, 255, 256, 257, 4000}) {
    std::vector<float> sums(count);
    for (size_t i = 0; i < count; ++i) {
      sums[i] = std::ldexp(normal(random), static_cast<int>(i / kExchangeBlock) * 9 - 60);
    }
    const std::vector<float> got = Sent(ExchangeFormat::kFloat8, sums);
    for (size_t i = 0; i < count; ++i) {
      float largest = 0;
      const size_t begin = i / kExchangeBlock * kExchangeBlock;
      for (size_t j = begin; j < std::min(count, begin + kExchangeBlock); ++j) {
        largest = std::max(largest, std::abs(sums[j]));
      }
      const float most = std::max(std::abs(sums[i]) / 16, largest * 0x1p-18f);
      ASSERT_LE(std::abs(got[i] - sums[i]), most * 1.0001f) << count << " " << i;
      if (std::abs(sums[i]) == largest) {
        ASSERT_EQ(got[i], sums[i]);
      }
    }
  }
}

TEST(ExchangeFormat, WhatIsTinyOrZeroIsNoProblem) {
  const float least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(Sent(ExchangeFormat::kFloat8, {0, 0, -0.0f}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(Sent(ExchangeFormat::kFloat8, {least, 0}), (std::vector<float>{least, 0}));
  const float most = std::numeric_limits<float>::max();
  EXPECT_EQ(Sent(ExchangeFormat::kFloat8, {-most, most / 2}),
            (std::vector<float>{-most, most / 2}));
}

TEST(ExchangeFormat, HasTheSameBitsOnEverySimdTarget) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> sums(2000);
  for (float& sum : sums) sum = std::exp(6 * normal(random)) * normal(random);
  std::vector<float> expected;
  ForEachSimdTarget([&](SimdTarget target) {
    const std::vector<float> got = Sent(ExchangeFormat::kFloat8, sums);
    if (target == SimdTarget::kBaseline) expected = got;
    EXPECT_EQ(got, expected) << SimdTargetName(target);
  });
}

// So that the step is skipped on every rank, or the run ends there with the reason.
TEST(ExchangeFormat, ABlockWithWhatIsNotFiniteHasNothingFinite) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    std::vector<float> sums(2 * kExchangeBlock + 10, 0.5f);
    sums[kExchangeBlock + 3] = bad;
    const std::vector<float> got = Sent(ExchangeFormat::kFloat8, sums);
    for (size_t i = 0; i < sums.size(); ++i) {
      ASSERT_EQ(std::isfinite(got[i]), i / kExchangeBlock != 1) << bad << " " << i;
    }
  }
}

TEST(ExchangeFormat, IsAddedInFp32) {
  const std::vector<float> sums = {1, 2, -4, 0x1p-20f};
  std::vector<char> bytes(ExchangedBytes(ExchangeFormat::kFloat8, sums.size()));
  EncodeSums(ExchangeFormat::kFloat8, sums.data(), sums.size(), bytes.data());
  std::vector<float> added = {0x1p-10f, 0x1p-10f, 0x1p-10f, 7};
  AddExchanged(ExchangeFormat::kFloat8, bytes.data(), sums.size(), added.data(), false);
  EXPECT_EQ(added, (std::vector<float>{1 + 0x1p-10f, 2 + 0x1p-10f, -4 + 0x1p-10f, 7}));
}

}  // namespace
}  // namespace spillway
