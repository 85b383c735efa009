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

#include "engine/numeric/gradient_loops.h"
#include "engine/numeric/optimizer.h"
#include "engine/numeric/split_master.h"
#include "tests/engine/numeric/simd_targets.h"

namespace spillway {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
constexpr UpdateRule kRules[] = {UpdateRule::kAdamW,       UpdateRule::kAdam,
                                 UpdateRule::kSgd,         UpdateRule::kSgdMomentum,
                                 UpdateRule::kSgdNesterov, UpdateRule::kLion};
constexpr WeightFormat kWeightFormats[] = {WeightFormat::kFloat32, WeightFormat::kBFloat16,
                                           WeightFormat::kBFloat16Byte, WeightFormat::kFloat16,
                                           WeightFormat::kBFloat16Alone};

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
  std::vector<uint16_t> weight16, residual, gradient16, narrow1, narrow2;

  friend bool operator==(const LoopState& a, const LoopState& b) {
    const auto same = [](const auto& x, const auto& y) {
      return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(x[0])) == 0;
    };
    return same(a.weight32, b.weight32) && same(a.master, b.master) && same(a.moment1, b.moment1) &&
           same(a.moment2, b.moment2) && same(a.weight16, b.weight16) &&
           same(a.residual, b.residual) && same(a.narrow1, b.narrow1) && same(a.narrow2, b.narrow2);
  }

  UpdatePlanes Planes(const UpdateKind& kind, uint64_t begin, uint64_t count) {
    const bool fp32 = kind.weights == WeightFormat::kFloat32;
    const bool narrow = kind.moments == MomentFormat::kBFloat16;
    const bool bytes = kind.weights == WeightFormat::kBFloat16Byte;
    return {
        .weight = fp32 ? static_cast<void*>(&weight32[begin]) : &weight16[begin],
        .residual = bytes ? static_cast<void*>(reinterpret_cast<uint8_t*>(residual.data()) + begin)
                          : &residual[begin],
        .master = &master[begin],
        .moment1 = narrow ? static_cast<void*>(&narrow1[begin]) : &moment1[begin],
        .moment2 = narrow ? static_cast<void*>(&narrow2[begin]) : &moment2[begin],
        .gradient = fp32 ? static_cast<const void*>(&gradient32[begin]) : &gradient16[begin],
        .count = count,
        .first_word = static_cast<uint32_t>(begin)};
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
    state.narrow1.push_back(AnyFiniteHalf(random, DType::kBFloat16));
    state.narrow2.push_back(AnyFiniteHalf(random, DType::kBFloat16) & 0x7fff);
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
                                        .one_minus_dampening = 0.8f,
                                        .rounding_key = 12345};

// Of planes that all decay or none.
uint32_t Update(const UpdateKind& kind, const UpdatePlanes& planes,
                const UpdateConstants& constants = kConstants) {
  const UpdateConstants both[] = {constants, constants};
  return UpdateParameters(kind, planes, {{0, planes.count, true}}, both);
}

template <typename Do>
void ForEachKind(Do work) {
  for (const WeightFormat weights : kWeightFormats) {
    for (const UpdateRule rule : kRules) {
      for (const MomentFormat moments : {MomentFormat::kFloat32, MomentFormat::kBFloat16}) {
        SCOPED_TRACE(testing::Message() << "weights " << int(weights) << " rule " << int(rule)
                                        << " moments " << int(moments));
        work(UpdateKind{weights, rule, moments});
      }
    }
  }
}

TEST(UpdateParameters, GivesTheSameBitsOnEverySimdTarget) {
  constexpr uint64_t kCount = 3 * 4096 + 13;
  ForEachKind([&](const UpdateKind& kind) {
    const LoopState start = RandomState(DTypeOf(kind.weights), kCount, 1);
    LoopState expected;
    uint32_t expected_largest = 0;
    ForEachSimdTarget([&](SimdTarget target) {
      LoopState state = start;
      uint32_t largest = 0;
      for (int step = 0; step < 2; ++step) largest = Update(kind, state.Planes(kind, 0, kCount));
      if (target == SimdTarget::kBaseline) {
        expected = state;
        expected_largest = largest;
        EXPECT_FALSE(state == start);
      }
      EXPECT_EQ(largest, expected_largest);
      EXPECT_TRUE(state == expected) << SimdTargetName(target);
    });
  });
}

TEST(UpdateParameters, GivesTheSameBitsHoweverTheRangeIsCut) {
  constexpr uint64_t kCount = 1000;
  ForEachKind([&](const UpdateKind& kind) {
    const LoopState start = RandomState(DTypeOf(kind.weights), kCount, 2);
    LoopState whole = start, cut = start, pieces = start;
    const uint32_t largest = Update(kind, whole.Planes(kind, 0, kCount));
    uint32_t largest_piece = 0;
    std::vector<UpdatePiece> all;
    for (uint64_t begin = 0, size = 1; begin < kCount; begin += size, size = size % 37 + 1) {
      all.push_back({begin, std::min(begin + size, kCount), begin % 2 == 0});
      largest_piece =
          std::max(largest_piece, Update(kind, cut.Planes(kind, begin, all.back().end - begin)));
    }
    EXPECT_TRUE(whole == cut);
    EXPECT_EQ(largest, largest_piece);
    const UpdateConstants both[] = {kConstants, kConstants};
    EXPECT_EQ(UpdateParameters(kind, pieces.Planes(kind, 0, kCount), all, both), largest);
    EXPECT_TRUE(whole == pieces);
  });
}

// What is rounded at random is one of the two around it, and right on average.
TEST(UpdateParameters, RoundsWeightsAndSecondMomentsInBFloat16ToTheirMean) {
  constexpr uint64_t kCount = 100'000;
  const UpdateKind kind = {WeightFormat::kBFloat16Alone, UpdateRule::kAdamW,
                           MomentFormat::kBFloat16};
  UpdateConstants constants = kConstants;
  constants.gradient_scale = constants.decay_factor = constants.bias_correction2_sqrt = 1;
  LoopState state;
  const uint16_t one = BFloat16FromFloat(1), gradient = BFloat16FromFloat(0.5f);
  state.weight16.assign(kCount, one);
  state.gradient16.assign(kCount, gradient);
  state.narrow1.assign(kCount, gradient);
  state.narrow2.assign(kCount, one);
  state.residual.resize(1), state.master.resize(1);
  Update(kind, state.Planes(kind, 0, kCount), constants);
  double weights = 0, moments = 0;
  int both_down = 0, weight_down = 0, moment_down = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(state.narrow1[i], gradient);
    EXPECT_TRUE(state.weight16[i] == one || state.weight16[i] == one - 1);
    EXPECT_TRUE(state.narrow2[i] == one || state.narrow2[i] == one - 1);
    weights += FloatFromBFloat16(state.weight16[i]) / double{kCount};
    moments += FloatFromBFloat16(state.narrow2[i]) / double{kCount};
    weight_down += state.weight16[i] != one;
    moment_down += state.narrow2[i] != one;
    both_down += state.weight16[i] != one && state.narrow2[i] != one;
  }
  // Of 100,000 drawn from what is 1/256 apart: the mean is 6e-6 off, by its standard deviation.
  EXPECT_NEAR(moments, 0.999 + 0.001 * 0.25, 3e-5);
  EXPECT_NEAR(weights, 1 - 3e-4 * 0.5 / std::sqrt(0.99925), 3e-5);
  // One is drawn without regard to the other.
  const double expected = double(weight_down) * moment_down / kCount;
  EXPECT_NEAR(both_down, expected, 5 * std::sqrt(expected));
}

// A step far below what 24 bits tell apart moves a master by as much on average.
TEST(UpdateParameters, RoundsMastersOf24BitsToTheirMean) {
  constexpr uint64_t kCount = 100'000;
  const UpdateKind kind = {WeightFormat::kBFloat16Byte, UpdateRule::kSgd};
  UpdateConstants constants = kConstants;
  constants.gradient_scale = 1;
  constants.weight_decay = 0;
  constants.negative_step_size = -0x1p-20f;
  LoopState state;
  state.weight16.assign(kCount, BFloat16FromFloat(1));
  state.gradient16.assign(kCount, BFloat16FromFloat(1));
  state.residual.assign(kCount, 0);
  state.master.resize(1), state.moment1.resize(1), state.moment2.resize(1);
  for (int step = 0; step < 4; ++step) {
    constants.rounding_key = 77 * step;
    Update(kind, state.Planes(kind, 0, kCount), constants);
  }
  const auto* residuals = reinterpret_cast<const uint8_t*>(state.residual.data());
  double moved = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double steps = (1 - Join(state.weight16[i], residuals[i])) / 0x1p-16;
    EXPECT_EQ(steps, std::round(steps));
    moved += steps / kCount;
  }
  // Of 100,000 that move by 2^-16 with a chance of 1 in 16, four times: 0.25, to 0.0015.
  EXPECT_NEAR(moved, 0.25, 0.008);
}

TEST(UpdateParameters, RefusesExactlyTheWeightsWithoutMastersThatAreNotFinite) {
  const UpdateKind kind = {WeightFormat::kBFloat16Alone, UpdateRule::kSgd};
  for (const uint16_t gradient : {0x0000, 0xff00, 0xff80, 0x7fc0}) {
    LoopState state;
    state.weight16 = {0x7f7f};  // the largest
    state.gradient16 = {gradient};
    state.residual = {0}, state.master = {0}, state.moment1 = {0}, state.moment2 = {0};
    UpdateConstants constants = kConstants;
    constants.gradient_scale = 1;
    constants.weight_decay = 0;
    constants.negative_step_size = -1;
    const uint32_t largest = Update(kind, state.Planes(kind, 0, 1), constants);
    float found = 0;
    const bool refused = gradient != 0;
    EXPECT_EQ(largest >= FirstUnstorableMagnitude(kind.weights), refused) << gradient;
    EXPECT_EQ(FindUnstorable(kind.weights, state.Planes(kind, 0, 1), &found), refused ? 0 : 1);
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
  const UpdateKind kind = {WeightFormat::kFloat32, UpdateRule::kSgd};
  Update(kind, state.Planes(kind, 0, kCount), constants);
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
