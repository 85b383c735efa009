// The loops by themselves: the same bits on every SIMD target, for every bit pattern
// that training can meet.
#include "engine/numeric/update_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "engine/numeric/optimizer.h"
#include "engine/numeric/split_master.h"
#include "tests/engine/numeric/simd_targets.h"

namespace spillway {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
constexpr UpdateRule kRules[] = {UpdateRule::kAdamW, UpdateRule::kAdam, UpdateRule::kSgd,
                                 UpdateRule::kSgdMomentum, UpdateRule::kSgdNesterov};

// Any exponent: subnormal, tiny, ordinary and huge.
float AnyFinite(std::mt19937& random) {
  for (;;) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isfinite(value)) return value;
  }
}

uint16_t AnyFiniteHalf(std::mt19937& random, DType dtype) {
  for (;;) {
    const uint16_t bits = static_cast<uint16_t>(random());
    const uint16_t infinity = dtype == DType::kBFloat16 ? 0x7f80 : 0x7c00;
    if ((bits & 0x7fff) < infinity) return bits;
  }
}

struct LoopState {
  std::vector<float> weight32, master, moment1, moment2, gradient32;
  std::vector<uint16_t> weight16, residual, gradient16;

  friend bool operator==(const LoopState& a, const LoopState& b) {
    const auto same = [](const auto& x, const auto& y) {
      return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(x[0])) == 0;
    };
    return same(a.weight32, b.weight32) && same(a.master, b.master) && same(a.moment1, b.moment1) &&
           same(a.moment2, b.moment2) && same(a.weight16, b.weight16) &&
           same(a.residual, b.residual);
  }

  UpdatePlanes Planes(DType dtype, uint64_t begin, uint64_t count) {
    const bool fp32 = dtype == DType::kFloat32;
    return {.weight = fp32 ? static_cast<void*>(&weight32[begin]) : &weight16[begin],
            .residual = &residual[begin],
            .master = &master[begin],
            .moment1 = &moment1[begin],
            .moment2 = &moment2[begin],
            .gradient = fp32 ? static_cast<const void*>(&gradient32[begin]) : &gradient16[begin],
            .count = count};
  }
};

// A third ordinary values, the rest anything finite.
LoopState RandomState(DType dtype, uint64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  LoopState state;
  for (uint64_t i = 0; i < count; ++i) {
    const bool ordinary = i % 3 == 0;
    const auto value = [&](float scale) {
      return ordinary ? normal(random) * scale : AnyFinite(random);
    };
    state.weight32.push_back(value(1));
    state.master.push_back(value(1));
    state.moment1.push_back(value(1e-2f));
    state.moment2.push_back(std::abs(value(1e-4f)));
    state.gradient32.push_back(value(1e-2f));
    state.weight16.push_back(ordinary ? BFloat16FromFloat(normal(random))
                                      : AnyFiniteHalf(random, dtype));
    state.residual.push_back(static_cast<uint16_t>(random()));
    state.gradient16.push_back(AnyFiniteHalf(random, dtype));
  }
  return state;
}

constexpr UpdateConstants kConstants = {.gradient_scale = 0.37f,
                                        .decay_factor = 0.9999f,
                                        .weight_decay = 0.01f,
                                        .one_minus_beta1 = 0.1f,
                                        .beta2 = 0.999f,
                                        .one_minus_beta2 = 0.001f,
                                        .bias_correction2_sqrt = 0.07f,
                                        .eps = 1e-8f,
                                        .negative_step_size = -3e-4f,
                                        .momentum = 0.9f,
                                        .one_minus_dampening = 0.8f};

TEST(UpdateParameters, GivesTheSameBitsOnEverySimdTarget) {
  constexpr uint64_t kCount = 3 * 4096 + 13;
  for (DType dtype : kDTypes) {
    for (UpdateRule rule : kRules) {
      const LoopState start = RandomState(dtype, kCount, 1);
      LoopState expected;
      uint32_t expected_largest = 0;
      ForEachSimdTarget([&](SimdTarget target) {
        LoopState state = start;
        uint32_t largest = 0;
        for (int step = 0; step < 2; ++step) {
          largest = UpdateParameters(dtype, rule, state.Planes(dtype, 0, kCount), kConstants);
        }
        if (target == SimdTarget::kBaseline) {
          expected = state;
          expected_largest = largest;
          EXPECT_FALSE(state == start);
        }
        EXPECT_EQ(largest, expected_largest);
        EXPECT_TRUE(state == expected)
            << SimdTargetName(target) << " " << DTypeName(dtype) << " rule " << int(rule);
      });
    }
  }
}

TEST(UpdateParameters, GivesTheSameBitsHoweverTheRangeIsCut) {
  constexpr uint64_t kCount = 1000;
  for (DType dtype : kDTypes) {
    const LoopState start = RandomState(dtype, kCount, 2);
    LoopState whole = start, pieces = start;
    const uint32_t largest =
        UpdateParameters(dtype, UpdateRule::kAdamW, whole.Planes(dtype, 0, kCount), kConstants);
    uint32_t largest_piece = 0;
    for (uint64_t begin = 0, size = 1; begin < kCount; begin += size, size = size % 37 + 1) {
      const UpdatePlanes planes = pieces.Planes(dtype, begin, std::min(size, kCount - begin));
      largest_piece =
          std::max(largest_piece, UpdateParameters(dtype, UpdateRule::kAdamW, planes, kConstants));
    }
    EXPECT_TRUE(whole == pieces) << DTypeName(dtype);
    EXPECT_EQ(largest, largest_piece);
  }
}

#if defined(__x86_64__)
// A library may leave a thread in flush-to-zero: subnormals must survive all the same.
TEST(UpdateParameters, IsExactInAThreadThatFlushesToZero) {
  constexpr uint64_t kCount = 64;
  LoopState state = RandomState(DType::kFloat32, kCount, 3);
  state.weight32.assign(kCount, 3e-40f);
  state.gradient32.assign(kCount, -2e-40f);
  UpdateConstants constants = kConstants;
  constants.gradient_scale = 1;
  constants.weight_decay = 0;
  constants.negative_step_size = -1;
  const uint32_t mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040);
  UpdateParameters(DType::kFloat32, UpdateRule::kSgd, state.Planes(DType::kFloat32, 0, kCount),
                   constants);
  const uint32_t mode_after = _mm_getcsr();
  _mm_setcsr(mode);
  EXPECT_EQ(mode_after, mode | 0x8040) << "the thread's own mode comes back";
  EXPECT_EQ(std::bit_cast<uint32_t>(state.weight32[17]), std::bit_cast<uint32_t>(5e-40f));
}

#endif

TEST(RoundGradient, GivesTheSameBitsOnEverySimdTargetAndTheLanesOrder) {
  std::mt19937 random(4);
  for (DType dtype : kDTypes) {
    for (uint64_t count : {1, 15, 16, 511, 512, 2048, 5000}) {
      std::vector<float> sums(count);
      for (float& sum : sums) sum = std::ldexp(AnyFinite(random), -20);
      std::vector<uint32_t> rounded(count);
      double lanes[16] = {};
      for (uint64_t i = 0; i < count; ++i) {
        float value = sums[i];
        if (dtype == DType::kBFloat16) value = FloatFromBFloat16(BFloat16FromFloat(value));
        if (dtype == DType::kFloat16) value = FloatFromFloat16(Float16FromFloat(value));
        lanes[i % 16] += static_cast<double>(value) * value;
      }
      double expected = 0;
      for (double lane : lanes) expected += lane;
      ForEachSimdTarget([&](SimdTarget target) {
        std::vector<float> in_place = sums;
        std::vector<char> apart(count * DTypeBytes(dtype) + 1, 'x');
        EXPECT_EQ(RoundGradient(dtype, sums.data(), apart.data(), count), expected)
            << SimdTargetName(target) << " " << DTypeName(dtype) << " " << count;
        EXPECT_EQ(apart.back(), 'x');
        EXPECT_EQ(RoundGradient(dtype, in_place.data(), in_place.data(), count), expected);
        EXPECT_EQ(std::memcmp(in_place.data(), apart.data(), count * DTypeBytes(dtype)), 0);
        EXPECT_EQ(SumOfSquares(dtype, apart.data(), count), expected);
        for (uint64_t i = 0; i < count && dtype != DType::kFloat32; ++i) {
          uint16_t half;
          std::memcpy(&half, apart.data() + 2 * i, 2);
          ASSERT_EQ(half, dtype == DType::kBFloat16 ? BFloat16FromFloat(sums[i])
                                                    : Float16FromFloat(sums[i]));
        }
      });
    }
  }
}

TEST(RoundGradient, SumIsFiniteExactlyWhenAllValuesAre) {
  constexpr uint64_t kCount = 4096;
  std::vector<float> sums(kCount, 3e38f), out(kCount);
  EXPECT_TRUE(std::isfinite(RoundGradient(DType::kFloat32, sums.data(), out.data(), kCount)));
  EXPECT_TRUE(std::isfinite(RoundGradient(DType::kBFloat16, sums.data(), out.data(), kCount)));
  EXPECT_FALSE(std::isfinite(RoundGradient(DType::kFloat16, sums.data(), out.data(), kCount)));
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                    std::nanf("")}) {
    sums[kCount - 1] = bad;
    for (DType dtype : kDTypes) {
      EXPECT_FALSE(std::isfinite(RoundGradient(dtype, sums.data(), out.data(), kCount)));
    }
  }
}

TEST(AccumulateGradient, AddsInFp32OnEverySimdTarget) {
  constexpr uint64_t kCount = 1003;
  std::mt19937 random(5);
  for (DType dtype : kDTypes) {
    const LoopState state = RandomState(dtype, kCount, 6);
    const void* gradient = dtype == DType::kFloat32
                               ? static_cast<const void*>(state.gradient32.data())
                               : state.gradient16.data();
    const auto value = [&](uint64_t i) {
      return dtype == DType::kFloat32    ? state.gradient32[i]
             : dtype == DType::kBFloat16 ? FloatFromBFloat16(state.gradient16[i])
                                         : FloatFromFloat16(state.gradient16[i]);
    };
    ForEachSimdTarget([&](SimdTarget target) {
      std::vector<float> sums(kCount + 1, std::nanf(""));
      AccumulateGradient(dtype, gradient, kCount, sums.data(), /*first=*/true);
      for (uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(sums[i], value(i));
      for (uint64_t i = 0; i < kCount; ++i) sums[i] = state.master[i];
      AccumulateGradient(dtype, gradient, kCount, sums.data(), /*first=*/false);
      for (uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(sums[i], state.master[i] + value(i));
      EXPECT_TRUE(std::isnan(sums[kCount])) << "one past the end";
    });
  }
}

// What a run that needs no fp32 sums relies on.
TEST(AccumulateRounded, TwoTermsAreAsTheirFp32SumRounded) {
  constexpr uint64_t kCount = 1003;
  for (DType dtype : kDTypes) {
    const LoopState a = RandomState(dtype, kCount, 7), b = RandomState(dtype, kCount, 8);
    const auto gradient = [&](const LoopState& state) {
      return dtype == DType::kFloat32 ? static_cast<const void*>(state.gradient32.data())
                                      : state.gradient16.data();
    };
    const uint64_t bytes = kCount * DTypeBytes(dtype);
    ForEachSimdTarget([&](SimdTarget target) {
      std::vector<float> sums(kCount);
      std::vector<char> expected(bytes), rounded(bytes + 1, 'x');
      for (const LoopState* term : {&a, &b}) {
        AccumulateGradient(dtype, gradient(*term), kCount, sums.data(), term == &a);
        RoundGradient(dtype, sums.data(), expected.data(), kCount);
        AccumulateRounded(dtype, gradient(*term), kCount, rounded.data(), term == &a);
        EXPECT_EQ(std::memcmp(rounded.data(), expected.data(), bytes), 0)
            << SimdTargetName(target) << " " << DTypeName(dtype) << " term "
            << (term == &a ? 1 : 2);
      }
      EXPECT_EQ(rounded.back(), 'x');
    });
  }
}

}  // namespace
}  // namespace spillway
