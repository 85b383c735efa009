// Computes a chain of double additions with a warp in parallel, to the bits of sequential addition.
//
// A gradient's norm is defined as 16 chains, lane += value * value, of 16,384 additions each in a
// tile. Sequentially they take 16,384 latencies of a double addition, which is slow on consumer
// GPUs.
//
// The squares are exact (24 bits times 24 bits fit into 53), and nothing is negative. While the sum
// stays in one binade, it is a whole number of units in its last place, and an addition adds the
// square rounded to units, which does not depend on the sum. The exception is a tie, which rounds
// to even and depends on whether the sum is odd. So the effect of a run of squares on a sum is two
// integers, one for an even start and one for an odd, and runs compose like functions:
// associatively, hence in parallel. Where a sum would leave its binade, one thread's squares are
// added one by one, and the rest starts over. That happens as often as the sum doubles, mostly at
// the beginning, and at most 600 times whatever the numbers are.
#pragma once

#include <cstdint>

#include "engine/numeric/number_formats.h"

namespace spillway {

inline constexpr int kWarpThreads = 32;
inline constexpr int kSquaresPerThread = 8;
inline constexpr int kSquaresPerWarp = kWarpThreads * kSquaresPerThread;
// Values of thread t start at t * kSquaresStride, which is odd to avoid bank conflicts.
inline constexpr int kSquaresStride = kSquaresPerThread + 1;

// The amount that some squares add to a sum's mantissa.
struct MantissaSteps {
  uint64_t from_even = 0;
  uint64_t from_odd = 0;
};

// Exceeds a mantissa: the sum leaves its binade.
inline constexpr uint64_t kLeavesBinade = uint64_t{1} << 52;

SPILLWAY_ALWAYS_INLINE uint64_t BitsOfDouble(double value) {
  return __builtin_bit_cast(uint64_t, value);
}

SPILLWAY_ALWAYS_INLINE MantissaSteps Then(MantissaSteps first, MantissaSteps second) {
  return {first.from_even + ((first.from_even & 1) == 0 ? second.from_even : second.from_odd),
          first.from_odd + ((first.from_odd & 1) == 0 ? second.from_odd : second.from_even)};
}

// value * value added to sums whose exponent bits are `exponent` (0: the sum is zero).
SPILLWAY_ALWAYS_INLINE MantissaSteps StepsOfSquare(float value, int exponent) {
  const uint32_t bits = BitsOf(value);
  const int value_exponent = static_cast<int>((bits >> 23) & 0xff);
  const uint32_t fraction = bits & 0x7fffff;
  if (value_exponent == 0xff) {
    // An infinite sum stays infinite, except for a NaN.
    const uint64_t steps = exponent == 0x7ff && fraction == 0 ? 0 : kLeavesBinade;
    return {steps, steps};
  }
  // value = mantissa * 2^(value_exponent - 150), a subnormal's exponent counting as 1.
  const uint64_t mantissa = value_exponent == 0 ? fraction : fraction | 0x800000;
  const uint64_t square = mantissa * mantissa;
  const int square_exponent = 2 * ((value_exponent == 0 ? 1 : value_exponent) - 150);
  const int shift = exponent - 1075 - square_exponent;  // from square's units to the sum's
  if (shift <= 0) {
    const bool fits = shift > -52 && (square >> (52 + shift)) == 0;
    const uint64_t steps = square == 0 ? 0 : fits ? square << -shift : kLeavesBinade;
    return {steps, steps};
  }
  if (shift >= 64) {
    return {};
  }
  const uint64_t down = square >> shift;
  const uint64_t rest = square - (down << shift);
  const uint64_t half = uint64_t{1} << (shift - 1);
  if (rest == half) {
    return {down + (down & 1), down + ((down & 1) ^ 1)};
  }
  const uint64_t steps = down + (rest > half ? 1 : 0);
  return {steps, steps};
}

// Adds the squares of a warp's values to `sum` in order: thread 0's, then thread 1's, and so on.
// Thread t's are values[t * kSquaresStride + 0..7]. `Warp` is 32 threads in lockstep, a GPU's
// (round_kernel.cu) or a test's.
template <typename Warp>
SPILLWAY_ALWAYS_INLINE double AddSquaresInOrder(Warp warp, const float* values, double sum) {
  int first = 0;  // all threads before it are done
  while (first < kWarpThreads && sum == sum) {
    const uint64_t bits = BitsOfDouble(sum);
    const int exponent = static_cast<int>(bits >> 52);
    typename Warp::template PerThread<MantissaSteps> steps;
    warp.ForEach([&](int thread) {
      MantissaSteps own;
      for (int i = 0; thread >= first && i < kSquaresPerThread; ++i) {
        own = Then(own, StepsOfSquare(values[thread * kSquaresStride + i], exponent));
      }
      steps[thread] = own;
    });
    // A prefix scan over the threads.
    for (int distance = 1; distance < kWarpThreads; distance *= 2) {
      const auto before = warp.FromThreadBefore(steps, distance);
      warp.ForEach([&](int thread) {
        if (thread >= distance) steps[thread] = Then(before[thread], steps[thread]);
      });
    }
    const uint64_t mantissa = bits & (kLeavesBinade - 1);
    typename Warp::template PerThread<uint64_t> grown;
    typename Warp::template PerThread<bool> leaves;
    warp.ForEach([&](int thread) {
      grown[thread] = (bits & 1) == 0 ? steps[thread].from_even : steps[thread].from_odd;
      leaves[thread] = mantissa + grown[thread] >= kLeavesBinade;
    });
    const int leaving = warp.FirstWhere(leaves);  // kWarpThreads when none does
    if (leaving > first) {
      sum = __builtin_bit_cast(double, bits + warp.Of(grown, leaving - 1));
    }
    for (int i = 0; leaving < kWarpThreads && i < kSquaresPerThread; ++i) {
      const double value = values[leaving * kSquaresStride + i];
      sum += value * value;
    }
    first = leaving + 1;
  }
  return sum;
}

}  // namespace spillway
