#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/numeric/random.h"
#include "tests/engine/numeric/simd_targets.h"

namespace spillway {
namespace {

constexpr DropoutKey kKey = {.seed = 11, .step = 22, .sample = 33, .unit = 4, .site = 5};

std::vector<uint8_t> Mask(const DropoutKey& key, double p, uint64_t begin, uint64_t count) {
  std::vector<float> values(count, 1);
  DropoutApply(key, p, begin, count, DType::kFloat32, values.data(), values.data());
  std::vector<uint8_t> keep(count);
  for (uint64_t i = 0; i < count; ++i) keep[i] = values[i] != 0;
  return keep;
}

double KeptFraction(const std::vector<uint8_t>& keep) {
  uint64_t kept = 0;
  for (uint8_t k : keep) kept += k;
  return static_cast<double>(kept) / static_cast<double>(keep.size());
}

TEST(Dropout, DropsItsProbability) {
  constexpr uint64_t kCount = 1 << 20;
  for (double p : {0.0, 0.1, 0.5, 0.9}) {
    EXPECT_NEAR(KeptFraction(Mask(kKey, p, 0, kCount)), 1 - p, p == 0 ? 0 : 2e-3) << p;
  }
}

TEST(Dropout, MaskDoesNotDependOnHowTheRangeIsCut) {
  const std::vector<uint8_t> whole = Mask(kKey, 0.3, 0, 5000);
  for (uint64_t begin : {0, 1, 15, 16, 127, 128, 129, 1023, 1024, 3333}) {
    for (uint64_t count : {0, 1, 17, 127, 128, 1000, 1600}) {
      EXPECT_EQ(Mask(kKey, 0.3, begin, count),
                std::vector<uint8_t>(whole.begin() + begin, whole.begin() + begin + count))
          << begin << " + " << count;
    }
  }
}

// Every field of the key makes a mask of its own, unrelated to the others.
TEST(Dropout, EveryFieldOfTheKeyMatters) {
  constexpr uint64_t kCount = 1 << 16;
  constexpr uint64_t kHigh = uint64_t{1} << 32;
  std::vector<DropoutKey> keys(10, kKey);
  keys[1].seed += 1;
  keys[2].step += 1;
  keys[3].sample += 1;
  keys[4].unit += 1;
  keys[5].site += 1;
  keys[6].seed += kHigh;
  keys[7].step += kHigh;
  keys[8].sample += kHigh;
  std::swap(keys[9].unit, keys[9].site);
  for (size_t a = 0; a < keys.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const std::vector<uint8_t> first = Mask(keys[a], 0.5, 0, kCount);
      const std::vector<uint8_t> second = Mask(keys[b], 0.5, 0, kCount);
      uint64_t equal = 0;
      for (uint64_t i = 0; i < kCount; ++i) equal += first[i] == second[i];
      EXPECT_NEAR(static_cast<double>(equal) / kCount, 0.5, 0.02) << a << " and " << b;
    }
  }
}

// Far apart and next to each other, elements are independent.
TEST(Dropout, ElementsDoNotCorrelate) {
  constexpr uint64_t kCount = 1 << 18;
  const std::vector<uint8_t> keep = Mask(kKey, 0.5, 0, kCount);
  for (uint64_t distance : {1, 2, 8, 16, 32, 64, 128, 1024, 1600}) {
    uint64_t equal = 0;
    for (uint64_t i = 0; i + distance < kCount; ++i) equal += keep[i] == keep[i + distance];
    EXPECT_NEAR(static_cast<double>(equal) / (kCount - distance), 0.5, 5e-3) << distance;
  }
}

// Elements beyond 2^35 need counters beyond 32 bits.
TEST(Dropout, HasNoPeriodInLongRanges) {
  EXPECT_NE(Mask(kKey, 0.5, 0, 256), Mask(kKey, 0.5, uint64_t{1} << 35, 256));
}

TEST(Dropout, KeepsItsBits) {
  uint64_t bits = 0;
  for (uint8_t keep : Mask(kKey, 0.5, 100, 64)) bits = (bits << 1) | keep;
  EXPECT_EQ(bits, 13032410223372476147u);
}

TEST(Dropout, ScalesWhatItKeepsAndRoundsOnce) {
  constexpr uint64_t kBegin = 77, kCount = 3000;
  constexpr double kP = 0.1;
  const float scale = static_cast<float>(1 / (1 - kP));
  const std::vector<uint8_t> keep = Mask(kKey, kP, kBegin, kCount);
  std::vector<float> values(kCount);
  FillNormal(1, 1, 0, kCount, 0, 100, values.data());
  values[5] = 1e-40f;
  ForEachSimdTarget([&](SimdTarget target) {
    std::vector<float> out(kCount);
    DropoutApply(kKey, kP, kBegin, kCount, DType::kFloat32, values.data(), out.data());
    for (uint64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(out[i], keep[i] ? values[i] * scale : 0) << SimdTargetName(target) << " " << i;
    }
    for (DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      const bool bf16 = dtype == DType::kBFloat16;
      std::vector<uint16_t> in(kCount), halves(kCount);
      for (uint64_t i = 0; i < kCount; ++i) {
        in[i] = bf16 ? BFloat16FromFloat(values[i]) : Float16FromFloat(values[i]);
      }
      DropoutApply(kKey, kP, kBegin, kCount, dtype, in.data(), halves.data());
      for (uint64_t i = 0; i < kCount; ++i) {
        const uint16_t scaled = bf16 ? BFloat16FromFloat(FloatFromBFloat16(in[i]) * scale)
                                     : Float16FromFloat(FloatFromFloat16(in[i]) * scale);
        ASSERT_EQ(halves[i], keep[i] ? scaled : 0) << SimdTargetName(target) << " " << i;
      }
      DropoutApply(kKey, kP, kBegin, kCount, dtype, in.data(), in.data());
      EXPECT_EQ(in, halves) << "in place";
    }
    EXPECT_EQ(Mask(kKey, kP, kBegin, kCount), keep) << SimdTargetName(target);
  });
}

TEST(Dropout, DropsNaNToZeroAndKeepsItWhereKept) {
  std::vector<float> values(1000, std::nanf("")), out(1000);
  DropoutApply(kKey, 0.5, 0, 1000, DType::kFloat32, values.data(), out.data());
  const std::vector<uint8_t> keep = Mask(kKey, 0.5, 0, 1000);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(std::isnan(out[i]), keep[i] == 1);
  }
}

}  // namespace
}  // namespace spillway
