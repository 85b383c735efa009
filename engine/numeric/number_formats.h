// The number formats of a run and their conversions, for the CPU's loops and the GPU's kernels:
// nothing but arithmetic, no library.
//
// All conversions round to nearest, ties to even, as IEEE 754 and torch do. They are
// written without branches so that loops over them vectorise on every SIMD target
// and give the same bits there. (The bf16 *master* is split differently: see
// split_master.h.)
#pragma once

#include <cstdint>

// Inlined into loops of every SIMD target and into kernels.
#if defined(__CUDACC__)
#define SPILLWAY_ALWAYS_INLINE inline __attribute__((always_inline)) __host__ __device__
#else
#define SPILLWAY_ALWAYS_INLINE inline __attribute__((always_inline))
#endif

namespace spillway {

enum class DType : uint8_t { kFloat32, kBFloat16, kFloat16 };

// Formats of stored moments, which are updated in fp32.
enum class MomentFormat : uint8_t {
  kFloat32,
  kBFloat16,  // the first rounded to nearest, the second stochastically
  kEightBit,  // codes with a scale a block (moment_code.h)
  kFloat8,    // E4M3 and fp16, with a scale a block
};

constexpr uint32_t DTypeBytes(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }

// std::bit_cast, but inlined everywhere.
SPILLWAY_ALWAYS_INLINE uint32_t BitsOf(float value) { return __builtin_bit_cast(uint32_t, value); }
SPILLWAY_ALWAYS_INLINE float FloatOfBits(uint32_t bits) { return __builtin_bit_cast(float, bits); }

// Exact. NaNs keep sign and payload.
SPILLWAY_ALWAYS_INLINE float FloatFromBFloat16(uint16_t bits) {
  return FloatOfBits(uint32_t{bits} << 16);
}

// Overflows to infinity; a NaN becomes a quiet NaN with the same sign.
SPILLWAY_ALWAYS_INLINE uint16_t BFloat16FromFloat(float value) {
  const uint32_t bits = BitsOf(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
}

// Stochastic rounding to one of the two bf16 around the value, by the upper half of `random_bits`.
// Exact values stay; NaN as above.
SPILLWAY_ALWAYS_INLINE uint16_t DitheredBFloat16(float value, uint32_t random_bits) {
  const uint32_t bits = BitsOf(value);
  const uint32_t rounded = (bits + (random_bits >> 16)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
}

// A hash of `word`: 32 pseudo-random bits (github.com/skeeto/hash-prospector, "lowbias32").
SPILLWAY_ALWAYS_INLINE uint32_t MixedBits(uint32_t word) {
  word = (word ^ (word >> 16)) * 0x7feb352d;
  word = (word ^ (word >> 15)) * 0x846ca68b;
  return word ^ (word >> 16);
}

// Exact, subnormals included.
SPILLWAY_ALWAYS_INLINE float FloatFromFloat16(uint16_t half) {
  const uint32_t sign = (uint32_t{half} & 0x8000) << 16;
  const uint32_t magnitude = uint32_t{half} & 0x7fff;
  const uint32_t normal = (magnitude << 13) + (uint32_t{127 - 15} << 23);
  const uint32_t infinite = (magnitude << 13) | 0x7f800000;  // infinity and NaN
  // A subnormal half is magnitude * 2^-24: both factors are exact in fp32.
  const uint32_t subnormal = BitsOf(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t finite = magnitude < 0x0400 ? subnormal : normal;
  return FloatOfBits(sign | (magnitude >= 0x7c00 ? infinite : finite));
}

// Values from 65520 on overflow to infinity; small ones become subnormals, exactly
// rounded; NaN becomes 0x7e00 with its sign.
SPILLWAY_ALWAYS_INLINE uint16_t Float16FromFloat(float value) {
  const uint32_t bits = BitsOf(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t normal =
      (magnitude - (uint32_t{127 - 15} << 23) + 0x0fff + ((magnitude >> 13) & 1)) >> 13;
  // Adding 0.5 leaves ulps of 2^-24, the subnormals' step: the addition rounds for us.
  // The operand is clamped so that the unused lanes stay small.
  const uint32_t small_bits = magnitude < 0x38800000 ? magnitude : 0;
  const uint32_t subnormal = BitsOf(FloatOfBits(small_bits) + 0.5f) - 0x3f000000;
  const uint32_t finite = magnitude < 0x38800000 ? subnormal : normal;
  const uint32_t infinite = magnitude > 0x7f800000 ? 0x7e00u : 0x7c00u;
  return static_cast<uint16_t>(sign | (magnitude >= 0x477ff000 ? infinite : finite));
}

// Stochastic rounding of a value in [0, 65504] to one of the two fp16 around it, by `random_bits`;
// never zero unless the value is. Other values give an arbitrary fp16.
SPILLWAY_ALWAYS_INLINE uint16_t DitheredFloat16(float value, uint32_t random_bits) {
  const uint32_t bits = BitsOf(value);
  const uint32_t drawn = random_bits >> 19;  // the 13 bits that are dropped
  const uint32_t normal = (bits - (uint32_t{127 - 15} << 23) + drawn) >> 13;
  // In steps of subnormals: below 1024 of them, so that adding the drawn part is exact.
  const uint32_t small_bits = bits < 0x38800000 ? bits : 0;
  const float steps = FloatOfBits(small_bits) * 0x1p24f +
                      static_cast<float>(static_cast<int32_t>(drawn)) * 0x1p-13f;
  const auto whole = static_cast<uint32_t>(static_cast<int32_t>(steps));
  const uint32_t least = small_bits != 0 ? 1 : 0;
  const uint32_t subnormal = whole > least ? whole : least;
  return static_cast<uint16_t>(bits < 0x38800000 ? subnormal : normal);
}

// E4M3 of "FP8 Formats for Deep Learning" (Micikevicius et al., 2022): a sign, four bits of
// exponent with bias 7, three of mantissa; steps of 2^-9 below 2^-6, maximum 448. Exact, except
// that the two NaNs become 480.
SPILLWAY_ALWAYS_INLINE float FloatFromFloat8(uint8_t code) {
  const uint32_t sign = (uint32_t{code} & 0x80) << 24;
  const uint32_t magnitude = uint32_t{code} & 0x7f;
  const uint32_t normal = (magnitude << 20) + (uint32_t{127 - 7} << 23);
  const uint32_t subnormal = BitsOf(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-9f);
  return FloatOfBits(sign | (magnitude < 8 ? subnormal : normal));
}

// The nearest E4M3, ties to even. REQUIRES: the magnitude rounds to at most 448; other values give
// an arbitrary code.
SPILLWAY_ALWAYS_INLINE uint8_t Float8FromFloat(float value) {
  const uint32_t bits = BitsOf(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t normal =
      (magnitude - (uint32_t{127 - 7} << 23) + 0x7ffff + ((magnitude >> 20) & 1)) >> 20;
  // Adding 2^14 leaves ulps of 2^-9, as for Float16FromFloat.
  const uint32_t small_bits = magnitude < 0x3c800000 ? magnitude : 0;
  const uint32_t subnormal = BitsOf(FloatOfBits(small_bits) + 0x1p14f) - 0x46800000;
  return static_cast<uint8_t>((bits >> 24 & 0x80) |
                              (magnitude < 0x3c800000 ? subnormal : normal & 0x7f));
}

// How a dtype's numbers are stored, and their conversion to fp32.
template <DType kDType>
struct Number;

template <>
struct Number<DType::kFloat32> {
  using Stored = float;
  static SPILLWAY_ALWAYS_INLINE float ToFloat(float value) { return value; }
  static SPILLWAY_ALWAYS_INLINE float FromFloat(float value) { return value; }
};

template <>
struct Number<DType::kBFloat16> {
  using Stored = uint16_t;
  static SPILLWAY_ALWAYS_INLINE float ToFloat(uint16_t value) { return FloatFromBFloat16(value); }
  static SPILLWAY_ALWAYS_INLINE uint16_t FromFloat(float value) { return BFloat16FromFloat(value); }
};

template <>
struct Number<DType::kFloat16> {
  using Stored = uint16_t;
  static SPILLWAY_ALWAYS_INLINE float ToFloat(uint16_t value) { return FloatFromFloat16(value); }
  static SPILLWAY_ALWAYS_INLINE uint16_t FromFloat(float value) { return Float16FromFloat(value); }
};

}  // namespace spillway
