// A warp's sum of squares against the plain loop, bit for bit.
#include "engine/cuda/sum_in_order.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "tests/engine/cuda/hard_numbers.h"
#include "tests/engine/cuda/host_warp.h"

namespace spillway {
namespace {

double OneByOne(const std::vector<float>& values) {
  double sum = 0;
  for (float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

double ByWarps(const std::vector<float>& values) {
  double sum = 0;
  for (size_t begin = 0; begin < values.size(); begin += kSquaresPerWarp) {
    float rows[kWarpThreads * kSquaresStride] = {};
    for (size_t i = begin; i < values.size() && i < begin + kSquaresPerWarp; ++i) {
      const size_t place = i - begin;
      rows[place / kSquaresPerThread * kSquaresStride + place % kSquaresPerThread] = values[i];
    }
    sum = AddSquaresInOrder(HostWarp(), rows, sum);
  }
  return sum;
}

// The same bits, or NaN both.
void ExpectSameSum(const std::vector<float>& values, const std::string& what) {
  const double expected = OneByOne(values), sum = ByWarps(values);
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(sum)) << what;
  } else {
    EXPECT_EQ(std::bit_cast<uint64_t>(sum), std::bit_cast<uint64_t>(expected))
        << what << ": " << sum << " instead of " << expected;
  }
}

void ExpectSameSum(int count, const std::string& what, const std::function<float(int)>& value) {
  std::vector<float> values(count);
  for (int i = 0; i < count; ++i) values[i] = value(i);
  ExpectSameSum(values, what);
}

TEST(SumInOrder, HasTheBitsOfTheLoopForNumbersOfAllKinds) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int count : {1, 2, 7, 8, 9, 255, 256, 257, 3000, 16384}) {
    const std::string n = std::to_string(count);
    ExpectSameSum(count, n + " normal", [&](int) { return normal(random) * 1e-3f; });
    ExpectSameSum(count, n + " hard", [&](int) { return HardNumber(random, 1, false); });
    ExpectSameSum(count, n + " zero", [&](int) { return 0.0f; });
    ExpectSameSum(count, n + " zeros, then not",
                  [&](int i) { return i == count - 1 ? 3e-7f : -0.0f; });
    ExpectSameSum(count, n + " all exponents up",
                  [&](int i) { return std::ldexp(1.1f, i % 270 - 149); });
    ExpectSameSum(count, n + " falling", [&](int i) { return std::ldexp(1.3f, 120 - i % 260); });
    ExpectSameSum(count, n + " smallest", [&](int) { return 0x1p-149f; });
    ExpectSameSum(count, n + " largest", [&](int) { return std::numeric_limits<float>::max(); });
  }
}

// The sum is 1 + some units; squares of half a unit, or units and a half, go to the even one.
TEST(SumInOrder, TiesGoToTheEvenSum) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    ExpectSameSum(2000, "ties " + std::to_string(round), [&](int i) {
      if (i == 0) return round % 2 == 0 ? 1.0f : 1.25f;
      switch (random() % 4) {
        case 0:
          return 0x1p-26f;  // a whole unit of 2^-52
        case 1:
          return 0x1.8p-25f;  // nine units
        case 2:
          return 0x1p-27f;  // a quarter
        default:
          // 2^-53: half a unit is the square of nothing with 24 bits; a tie needs the next binade.
          return 0x1p-26f * static_cast<float>(1 + random() % 3);
      }
    });
    // In [2, 4) a unit is 2^-51: odd squares of 2^-26 are ties.
    ExpectSameSum(2000, "ties above two " + std::to_string(round), [&](int i) {
      return i == 0 ? 1.5f : 0x1p-26f * static_cast<float>(1 + random() % 9);
    });
  }
}

TEST(SumInOrder, BFloat16SquaresTieOftenEnoughToBeSeen) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 50; ++round) {
    ExpectSameSum(16384, "bf16", [&](int) {
      const float wide = std::ldexp(normal(random), -static_cast<int>(random() % 27));
      return FloatFromBFloat16(BFloat16FromFloat(wide));
    });
  }
}

TEST(SumInOrder, ASumThatWouldLeaveItsBinadeByOneUnitIsNoticed) {
  // 2 - 2^-52 + 2^-52 is exactly 2, from where units are twice as large.
  const float last = 0x1p-26f;
  for (int before = 0; before < 300; ++before) {
    std::vector<float> values;
    values.push_back(std::sqrt(2.0f));
    for (int i = 0; i < before; ++i) values.push_back(last);
    for (int i = 0; i < 300; ++i) values.push_back(i % 3 == 0 ? last : 0x1p-25f);
    ExpectSameSum(values, std::to_string(before));
    values[0] = std::nextafter(std::sqrt(2.0f), 0.0f);
    ExpectSameSum(values, std::to_string(before));
  }
}

// A tile's lane takes 64 rounds, and a further one each time that its sum leaves its binade.
TEST(SumInOrder, StartsOverOnlyWhereTheSumLeavesItsBinade) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  const auto rounds = [](const std::vector<float>& values) {
    const int before = HostWarp::rounds;
    ByWarps(values);
    return HostWarp::rounds - before;
  };
  std::vector<float> values(16384);
  for (float& value : values) value = normal(random);
  EXPECT_LT(rounds(values), 64 + 20);
  for (int i = 0; i < 16384; ++i) values[i] = std::ldexp(1.0f, i * 276 / 16384 - 149);
  EXPECT_LT(rounds(values), 64 + 600) << "every binade there is";
  values.assign(16384, std::numeric_limits<float>::infinity());
  EXPECT_LT(rounds(values), 64 + 2);
  values.assign(16384, std::nanf(""));
  EXPECT_LT(rounds(values), 2);
}

TEST(SumInOrder, InfinitiesAndNaNsAreAsInTheLoop) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (int at : {0, 5, 255, 256, 1999}) {
    ExpectSameSum(2000, "infinity", [&](int i) { return i == at ? -kInfinity : 1.5f; });
    ExpectSameSum(2000, "NaN", [&](int i) { return i == at ? std::nanf("") : 1.5f; });
    ExpectSameSum(2000, "NaN after infinity", [&](int i) {
      return i == 3 ? kInfinity : i == at ? std::nanf("") : 1.5f;
    });
  }
  ExpectSameSum(2000, "all infinite", [&](int) { return kInfinity; });
  ExpectSameSum(2000, "all NaN", [&](int) { return -std::nanf("7"); });
}

}  // namespace
}  // namespace spillway
