// Moments stored as codes: each code is a multiple of its block's scale, the largest magnitude in
// the block. The two formats with codes, for the CPU's loops and the GPU's kernels.
#pragma once

#include <cstdint>

#include "engine/numeric/moment_code.h"
#include "engine/numeric/number_formats.h"
#include "engine/numeric/update_kind.h"

namespace spillway {

// Each format has:
//   Code1, Code2     the types that store a first moment (or momentum) and a second moment
//   Multiple1, 2     the multiple of the scale that a code means
//   Code1Of          the code nearest to value / scale, which is in [-1, 1]
//   Code2Of          one of the two codes around value / scale, which is in [0, 1], rounded
//                    stochastically; never zero unless the value is
// Values that are not finite get an arbitrary code. REQUIRES: scale > 0.
template <MomentFormat kMoments>
struct CodedMoments {};  // formats without codes

// bitsandbytes' dynamic maps.
template <>
struct CodedMoments<MomentFormat::kEightBit> {
  using Code1 = uint8_t;
  using Code2 = uint8_t;

  SPILLWAY_ALWAYS_INLINE float Multiple1(Code1 code) const { return map1->values[code]; }
  SPILLWAY_ALWAYS_INLINE float Multiple2(Code2 code) const { return map2->values[code]; }
  SPILLWAY_ALWAYS_INLINE Code1 Code1Of(float value, float scale) const {
    return static_cast<Code1>(MomentCodeOf<true>(*map1, value, scale));
  }
  SPILLWAY_ALWAYS_INLINE Code2 Code2Of(float value, float scale, uint32_t random_bits) const {
    return static_cast<Code2>(DitheredCodeOf(*map2, value, scale, random_bits));
  }

  const MomentCode* map1;  // signed
  const MomentCode* map2;  // unsigned
};

// MS-AMP's O2 (Peng et al., "FP8-LM", 2023): E4M3 and fp16, in multiples of the largest power of
// two in each format. (With 448 and 65504 the largest moment would be rounded at every step.)
template <>
struct CodedMoments<MomentFormat::kFloat8> {
  using Code1 = uint8_t;
  using Code2 = uint16_t;

  SPILLWAY_ALWAYS_INLINE float Multiple1(Code1 code) const {
    return FloatFromFloat8(code) * 0x1p-8f;
  }
  SPILLWAY_ALWAYS_INLINE float Multiple2(Code2 code) const {
    return FloatFromFloat16(code) * 0x1p-15f;
  }
  SPILLWAY_ALWAYS_INLINE Code1 Code1Of(float value, float scale) const {
    return Float8FromFloat(value / scale * 0x1p8f);
  }
  SPILLWAY_ALWAYS_INLINE Code2 Code2Of(float value, float scale, uint32_t random_bits) const {
    return DitheredFloat16(value / scale * 0x1p15f, random_bits);
  }
};

}  // namespace spillway
