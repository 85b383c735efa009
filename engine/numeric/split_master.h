// An fp32 master kept as two 16-bit planes: the bf16 compute weight, and what it lacks.
//
//   weight   = the master rounded to nearest bf16, ties away from zero
//   residual = the master's low 16 bits
//   master   = ((weight - (residual >= 0x8000)) << 16) | residual      (in uint32)
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

struct SplitMaster {
  uint16_t weight;
  uint16_t residual;
};

// Half of the weight's last place is 0x8000: adding it to the magnitude rounds ties away.
SPILLWAY_ALWAYS_INLINE SplitMaster Split(float master) {
  const uint32_t bits = BitsOf(master);
  return {static_cast<uint16_t>((bits + 0x8000) >> 16), static_cast<uint16_t>(bits)};
}

SPILLWAY_ALWAYS_INLINE float Join(uint16_t weight, uint16_t residual) {
  const uint32_t high = uint32_t{weight} - (uint32_t{residual} >> 15);
  return FloatOfBits((high << 16) | residual);
}

}  // namespace spillway
