// The random bits of dropout masks, for the CPU's loops (dropout_mask.cc) and the GPU's kernel
// (engine/cuda/).
//
// Element e of a mask belongs to block e / 128. A block takes 16 Philox counters; with
// j = e % 16 and h = (e / 16) % 8, its 16 bits are half h % 2 of word h / 2 of counter
// 16 * block + j.
#pragma once

#include <cstdint>

#include "engine/numeric/number_formats.h"

namespace spillway {

inline constexpr uint64_t kDropoutBlock = 128;         // elements: 8 a counter
inline constexpr uint64_t kDropoutBlockCounters = 16;  // counters per block

struct DropoutMaskKey {
  uint32_t key0, key1;  // from seed, step and sample
  uint32_t unit, site;
  uint32_t threshold;  // 16 bits below it drop their element
};

struct DropoutKey;

// REQUIRES: 0 <= p < 1.
DropoutMaskKey DropoutMaskKeyOf(const DropoutKey& key, double p);

// The factor of kept elements.
float DropoutScale(double p);

template <DType kDType>
SPILLWAY_ALWAYS_INLINE typename Number<kDType>::Stored ScaleKept(
    typename Number<kDType>::Stored value, float scale) {
  const float x = Number<kDType>::ToFloat(value);
  float scaled = x * scale;
#if defined(__CUDA_ARCH__)
  // x86 preserves the payload of a NaN; a GPU makes its own.
  if (x != x) scaled = FloatOfBits(BitsOf(x) | 0x00400000);
#endif
  return Number<kDType>::FromFloat(scaled);
}

}  // namespace spillway
