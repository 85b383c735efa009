// Optimizer moments in 8 bits: a block of neighbouring parameters shares a scale, its largest
// magnitude, and each number is one of 256 multiples of it.
//
// The multiples are bitsandbytes' dynamic map (create_dynamic_map of bitsandbytes 0.50; Dettmers et
// al., 2022): seven decades, each with twice the resolution of the one below. The map is signed for
// a first moment or a momentum, unsigned for a second moment. Decoding is a multiplication. A first
// moment is rounded to the nearest multiple: no error exceeds bitsandbytes'. A second moment is
// rounded stochastically to one of its two neighbours. In a step it moves by a thousandth, a tenth
// of the distance between two codes, and rounding to nearest would leave it unchanged until a large
// gradient comes.
//
// For the CPU's loops and the GPU's kernels: nothing but arithmetic.
#pragma once

#include <cstdint>

#include "engine/numeric/number_formats.h"

namespace spillway {

// Parameters with a common scale. A block lies within one tile, one shard and one rank's share.
inline constexpr uint32_t kMomentBlock = 256;

// The code tables of the signed or the unsigned map.
struct MomentCode {
  // Cells: numbers in (0, 1] with the same upper 16 bits. A cell has at most one limit between
  // codes.
  static constexpr uint32_t kFirstCell = 0x3400;  // 2^-23: all below is nearest to zero
  static constexpr uint32_t kLastCell = 0x3f80;   // 1

  float values[256] = {};  // by code; ascending
  // By cell: in the upper half the rank of its smallest number among the magnitudes (0 for zero),
  // in the lower half the limit of the lower 16 bits above which the next rank starts.
  uint32_t cells[kLastCell - kFirstCell + 1] = {};
  uint32_t zero = 0;          // the code of 0
  uint32_t largest_down = 0;  // the largest rank of negative numbers
};

namespace internal {

// torch.linspace(0.1, 1, parts + 1)[i], whose product and sum are rounded once.
constexpr float DecadeLimit(int i, int parts) {
  const double step = (1.0f - 0.1f) / static_cast<float>(parts);
  return static_cast<float>(i < (parts + 1) / 2 ? double{0.1f} + step * i
                                                : 1.0 - step * (parts - i));
}

constexpr MomentCode MakeMomentCode(bool is_signed) {
  constexpr float kDecades[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
  float magnitudes[257] = {};  // ascending, from zero
  uint32_t count = 1;
  for (int decade = 0; decade < 7; ++decade) {
    const int parts = 1 << (decade + (is_signed ? 0 : 1));
    for (int i = 0; i < parts; ++i) {
      const float middle = (DecadeLimit(i, parts) + DecadeLimit(i + 1, parts)) / 2.0f;
      magnitudes[count++] = kDecades[decade] * middle;
    }
  }
  magnitudes[count++] = 1.0f;

  MomentCode code;
  code.zero = is_signed ? count - 2 : 0;
  code.largest_down = is_signed ? count - 2 : 0;
  for (uint32_t rank = 0; rank < count; ++rank) {
    code.values[code.zero + rank] = magnitudes[rank];
    if (rank <= code.largest_down) code.values[code.zero - rank] = -magnitudes[rank];
  }
  code.values[code.zero] = 0;

  uint32_t rank = 0;
  for (uint32_t cell = MomentCode::kFirstCell; cell <= MomentCode::kLastCell; ++cell) {
    // The largest float that is not nearer to the next rank.
    uint32_t limit = 0xffffffff;
    if (rank + 1 < count) {
      const double middle = (double{magnitudes[rank]} + double{magnitudes[rank + 1]}) / 2;
      const float rounded = static_cast<float>(middle);
      limit = __builtin_bit_cast(uint32_t, rounded) - (double{rounded} > middle ? 1 : 0);
    }
    const bool here = limit >> 16 == cell;
    code.cells[cell - MomentCode::kFirstCell] = rank << 16 | (here ? limit & 0xffff : 0xffff);
    if (here) ++rank;
  }
  return code;
}

}  // namespace internal

inline constexpr MomentCode kSignedMomentCode = internal::MakeMomentCode(true);
inline constexpr MomentCode kUnsignedMomentCode = internal::MakeMomentCode(false);
// Every limit was met, and none lies in the cell of the smallest numbers.
static_assert(kSignedMomentCode.cells[MomentCode::kLastCell - MomentCode::kFirstCell] >> 16 == 128);
static_assert(kUnsignedMomentCode.cells[MomentCode::kLastCell - MomentCode::kFirstCell] >> 16 ==
              255);
static_assert(kSignedMomentCode.cells[0] == 0xffff && kUnsignedMomentCode.cells[0] == 0xffff);

// The code nearest to value / scale. REQUIRES: scale > 0 and scale >= |value|. A value that is not
// finite gets an arbitrary code.
template <bool kSigned>
SPILLWAY_ALWAYS_INLINE uint32_t MomentCodeOf(const MomentCode& code, float value, float scale) {
  const uint32_t bits = BitsOf(value / scale);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t cell = magnitude >> 16;
  const uint32_t low = cell < MomentCode::kFirstCell ? MomentCode::kFirstCell : cell;
  const uint32_t bounded = low > MomentCode::kLastCell ? MomentCode::kLastCell : low;
  const uint32_t entry = code.cells[bounded - MomentCode::kFirstCell];
  const uint32_t rank = (entry >> 16) + ((magnitude & 0xffff) > (entry & 0xffff) ? 1 : 0);
  if constexpr (!kSigned) return rank;
  const uint32_t down = rank < code.largest_down ? rank : code.largest_down;
  return bits >> 31 != 0 ? code.zero - down : code.zero + rank;
}

// One of the two codes around value / scale (unsigned codes), rounded stochastically. The result is
// never zero unless the value is: updates are divided by it. REQUIRES: as for MomentCodeOf.
SPILLWAY_ALWAYS_INLINE uint32_t DitheredCodeOf(const MomentCode& code, float value, float scale,
                                               uint32_t random_bits) {
  const float quotient = value / scale;
  const uint32_t nearest = MomentCodeOf<false>(code, value, scale);
  const uint32_t lower = nearest - (code.values[nearest] > quotient ? 1 : 0);
  const uint32_t upper = lower < 255 ? lower + 1 : 255;
  const float begin = code.values[lower & 0xff], width = code.values[upper & 0xff] - begin;
  const bool vanishes = lower == 0 && quotient > 0;
  const float part = static_cast<float>(static_cast<int32_t>(random_bits >> 8)) * 0x1p-24f;
  return vanishes || part * width < quotient - begin ? upper & 0xff : lower & 0xff;
}

}  // namespace spillway
