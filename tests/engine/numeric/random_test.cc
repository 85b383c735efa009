#include "engine/numeric/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "engine/numeric/simd_dispatch.h"

namespace spillway {
namespace {

// kat_vectors of Random123 1.14: "philox 4x32 10".
TEST(Philox, GivesRandom123KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

std::vector<float> Normal(uint64_t stream, uint64_t first, uint64_t count) {
  std::vector<float> values(count);
  FillNormal(7, stream, first, count, 0, 1, values.data());
  return values;
}

TEST(FillNormal, DoesNotDependOnHowTheRangeIsCut) {
  const std::vector<float> whole = Normal(3, 0, 1000);
  for (uint64_t cut : {1, 2, 3, 511, 512, 999}) {
    std::vector<float> pieces = Normal(3, 0, cut);
    const std::vector<float> rest = Normal(3, cut, 1000 - cut);
    pieces.insert(pieces.end(), rest.begin(), rest.end());
    EXPECT_EQ(pieces, whole) << "cut at " << cut;
  }
}

TEST(FillNormal, HasTheSameBitsOnEverySimdTarget) {
  SetSimdTargetForTest(SimdTarget::kBaseline);
  const std::vector<float> expected = Normal(9, 5, 100000);
  for (const SimdTarget target : {SimdTarget::kAvx2, SimdTarget::kAvx512}) {
    if (!SimdTargetSupported(target)) continue;
    SetSimdTargetForTest(target);
    EXPECT_EQ(Normal(9, 5, 100000), expected) << SimdTargetName(target);
  }
  ResetSimdTargetForTest();
}

TEST(FillNormal, StreamsAndSeedsDiffer) {
  EXPECT_NE(Normal(3, 0, 8), Normal(4, 0, 8));
  std::vector<float> other_seed(8);
  FillNormal(8, 3, 0, 8, 0, 1, other_seed.data());
  EXPECT_NE(Normal(3, 0, 8), other_seed);
}

TEST(FillNormal, HasTheMomentsAndTailsOfANormal) {
  constexpr uint64_t kCount = 1 << 20;
  std::vector<float> values(kCount);
  FillNormal(1, 2, 0, kCount, 3, 0.5, values.data());
  double sum = 0, squares = 0, fourth = 0, neighbours = 0;
  uint64_t beyond_two = 0;
  double previous = 0;
  for (float value : values) {
    const double z = (value - 3) / 0.5;
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
    neighbours += z * previous;
    previous = z;
    beyond_two += std::abs(z) > 2;
  }
  EXPECT_NEAR(sum / kCount, 0, 5e-3);
  EXPECT_NEAR(squares / kCount, 1, 7e-3);
  EXPECT_NEAR(fourth / kCount, 3, 5e-2);
  EXPECT_NEAR(neighbours / kCount, 0, 5e-3);
  EXPECT_NEAR(static_cast<double>(beyond_two) / kCount, 0.0455, 1e-3);
}

// The radius against libm, on the very words it is made of; the angle by its spread.
TEST(FillNormal, IsBoxAndMullersTransform) {
  constexpr int kPairs = 80000;
  int octants[8] = {};
  float values[2];
  for (uint64_t stream = 0; stream < kPairs; ++stream) {
    FillNormal(5, stream, 0, 2, 0, 1, values);
    const uint64_t words = RandomBits(5, stream, 0);
    const double radius = std::sqrt(-2 * std::log(((words >> 11) + 1) * 0x1p-53));
    ASSERT_NEAR(std::hypot(values[0], values[1]), radius, 1e-6 * radius);
    const double turn = std::atan2(values[1], values[0]) / (2 * std::numbers::pi);
    ++octants[static_cast<int>((turn < 0 ? turn + 1 : turn) * 8) % 8];
  }
  for (int count : octants) {
    EXPECT_NEAR(count, kPairs / 8, 400);  // four standard deviations
  }
}

// The bits are part of what a seed means: a change here changes every initial model.
TEST(FillNormal, KeepsItsBits) {
  std::vector<float> values(4);
  FillNormal(42, 1, 1000001, 4, 0, 0.02, values.data());
  EXPECT_EQ(values, (std::vector<float>{0x1.12db48p-12f, 0x1.a4373cp-6f, -0x1.decd96p-9f,
                                        -0x1.9bc12ap-8f}));
}

TEST(FillUniform, StaysInItsRangeAndDoesNotDependOnCuts) {
  std::vector<float> whole(4096), part(96);
  FillUniform(1, 2, 0, whole.size(), -0.25, 0.75, whole.data());
  FillUniform(1, 2, 4000, part.size(), -0.25, 0.75, part.data());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 4000));
  double sum = 0;
  for (float value : whole) {
    EXPECT_GE(value, -0.25f);
    EXPECT_LT(value, 0.75f);
    sum += value;
  }
  EXPECT_NEAR(sum / whole.size(), 0.25, 0.02);
}

TEST(Permute, IsABijection) {
  for (uint64_t n : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4097}) {
    for (uint64_t key : {uint64_t{0}, uint64_t{1}, EpochKey(9, 3)}) {
      std::vector<bool> seen(n);
      for (uint64_t i = 0; i < n; ++i) {
        const uint64_t to = Permute(i, n, key);
        ASSERT_LT(to, n);
        EXPECT_FALSE(seen[to]) << "n " << n << ", key " << key;
        seen[to] = true;
      }
    }
  }
}

TEST(Permute, MixesAndDiffersByEpoch) {
  constexpr uint64_t kCount = 10000;
  uint64_t fixed = 0, same = 0, neighbours = 0;
  double displacement = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const uint64_t first = Permute(i, kCount, EpochKey(1, 0));
    fixed += first == i;
    same += first == Permute(i, kCount, EpochKey(1, 1));
    neighbours += Permute((i + 1) % kCount, kCount, EpochKey(1, 0)) == first + 1;
    displacement += std::abs(static_cast<double>(first) - static_cast<double>(i));
  }
  EXPECT_LT(fixed, 10);  // 1 expected of each
  EXPECT_LT(same, 10);
  EXPECT_LT(neighbours, 10);
  EXPECT_NEAR(displacement / kCount, kCount / 3.0, kCount * 0.02);
}

TEST(Permute, ReachesFarBeyond32Bits) {
  const uint64_t n = (uint64_t{1} << 40) + 12345;
  uint64_t largest = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    const uint64_t to = Permute(i, n, 3);
    EXPECT_LT(to, n);
    largest = std::max(largest, to);
  }
  EXPECT_GT(largest, n / 2);
}

}  // namespace
}  // namespace spillway
