// Decodes and encodes a block of coded moments for the CPU's loops.
#pragma once

#include <cstdint>

#include "engine/numeric/moment_code.h"
#include "engine/numeric/number_formats.h"

namespace spillway {

// Decodes one kind of moment of one block; `multiple` maps a code to its multiple of the scale.
template <typename Code, typename Multiple>
SPILLWAY_ALWAYS_INLINE void DecodeBlock(const Code* codes, float scale, float* __restrict values,
                                        const Multiple& multiple) {
#pragma GCC ivdep
  for (uint32_t i = 0; i < kMomentBlock; ++i) values[i] = multiple(codes[i]) * scale;
}

// Encodes numbers, with a scale from the largest one.
template <typename Code, typename CodeOf>
SPILLWAY_ALWAYS_INLINE void EncodeBlock(const float* values, Code* __restrict codes, float* scale,
                                        const CodeOf& code_of) {
  uint32_t largest = 0;
  for (uint32_t i = 0; i < kMomentBlock; ++i) {
    const uint32_t magnitude = BitsOf(values[i]) & 0x7fffffff;
    largest = magnitude > largest ? magnitude : largest;
  }
  *scale = FloatOfBits(largest);
  // A block of zeros gets one well-defined code.
  const float divisor = largest == 0 ? 1.0f : *scale;
#pragma GCC ivdep
  for (uint32_t i = 0; i < kMomentBlock; ++i) codes[i] = code_of(values[i], divisor, i);
}

}  // namespace spillway
