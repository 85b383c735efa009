// Numbers that arithmetic gets wrong first: subnormals, ties, infinities, NaNs, every exponent.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "engine/numeric/number_formats.h"

namespace spillway {

inline constexpr DType kAllDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

// A third ordinary numbers around `scale`, a third any bits at all (infinities and NaNs too when
// `broken`), a third ordinary ones with few digits, whose sums and products tie.
inline float HardNumber(std::mt19937& random, float scale, bool broken) {
  std::normal_distribution<float> normal;
  switch (random() % 3) {
    case 0:
      return normal(random) * scale;
    case 1:
      return std::ldexp(static_cast<float>(static_cast<int>(random() % 513) - 256),
                        static_cast<int>(random() % 20) - 18) *
             scale;
    default:
      for (;;) {
        const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
        if (broken || std::isfinite(value)) return value;
      }
  }
}

// `count` of them as the dtype stores them.
inline std::vector<char> HardNumbers(DType dtype, uint64_t count, std::mt19937& random, float scale,
                                     bool broken) {
  std::vector<char> bytes(count * DTypeBytes(dtype));
  for (uint64_t i = 0; i < count; ++i) {
    const float value = HardNumber(random, scale, broken);
    uint16_t half = dtype == DType::kBFloat16 ? BFloat16FromFloat(value) : Float16FromFloat(value);
    if (broken && random() % 50 == 0) half = static_cast<uint16_t>(random());
    if (!broken && dtype == DType::kFloat16 && (half & 0x7c00) == 0x7c00) half ^= 0x4000;
    if (!broken && dtype == DType::kBFloat16 && (half & 0x7f80) == 0x7f80) half ^= 0x4000;
    if (dtype == DType::kFloat32) {
      std::memcpy(bytes.data() + 4 * i, &value, 4);
    } else {
      std::memcpy(bytes.data() + 2 * i, &half, 2);
    }
  }
  return bytes;
}

// Whether two fp32 numbers have the same bits, or are NaNs both: which NaN comes of an operation
// is the processor's affair.
inline bool SameNumber(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || BitsOf(a) == BitsOf(b);
}

}  // namespace spillway
