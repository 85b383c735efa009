// An fp32 master split into two planes: the bf16 compute weight, and the residual.
//
//   weight   = the master rounded to nearest bf16, ties away from zero
//   residual = the master's low 16 bits
//   master   = ((weight - (residual >= 0x8000)) << 16) | residual      (in uint32)
//
// A 24-bit master has zeros in its low 8 bits, and a residual of the 8 bits above them.
//
// The idea is that of Split-SGD-BF16 (Kalamkar et al., "Optimizing Deep Learning
// Recommender Systems' Training On CPU Cluster Architectures", 2020), which truncates;
// rounding makes the weight the best bf16 of its master. Round trips are exact for
// every bit pattern; a master whose weight would be infinite is refused by the update.
#pragma once

#include <cstdint>

#include "engine/numeric/number_formats.h"

namespace spillway {

// The smallest magnitude bits of a master whose rounded weight is not finite.
inline constexpr uint32_t kFirstUnsplittableMagnitude = 0x7f7f8000;

template <typename Residual>
struct SplitMaster {
  uint16_t weight;
  Residual residual;
};

// Half of the weight's last place is 0x8000: adding it to the magnitude rounds ties away. Residual:
// uint16_t, or uint8_t with 24-bit masters.
template <typename Residual = uint16_t>
SPILLWAY_ALWAYS_INLINE SplitMaster<Residual> Split(float master) {
  const uint32_t bits = BitsOf(master);
  return {static_cast<uint16_t>((bits + 0x8000) >> 16),
          static_cast<Residual>(bits >> (16 - 8 * sizeof(Residual)))};
}

template <typename Residual>
SPILLWAY_ALWAYS_INLINE float Join(uint16_t weight, Residual residual) {
  constexpr uint32_t kBits = 8 * sizeof(Residual);
  const uint32_t high = uint32_t{weight} - (uint32_t{residual} >> (kBits - 1));
  return FloatOfBits((high << 16) | (uint32_t{residual} << (16 - kBits)));
}

// Stochastic rounding to one of the two 24-bit masters around a value, by the upper byte of
// `random_bits`. NaN stays NaN.
SPILLWAY_ALWAYS_INLINE float DitheredMaster24(float value, uint32_t random_bits) {
  const uint32_t bits = BitsOf(value);
  const uint32_t rounded = bits + (random_bits >> 24);
  const uint32_t quiet_nan = bits | 0x400000;
  return FloatOfBits(((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded) & 0xffffff00);
}

// The nearest 24-bit master, ties to even.
inline float NearestMaster24(float value) {
  const uint32_t bits = BitsOf(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return value;
  return FloatOfBits((bits + 0x7f + (bits >> 8 & 1)) & 0xffffff00);
}

}  // namespace spillway
