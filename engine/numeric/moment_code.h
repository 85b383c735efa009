// How an optimizer's moments are kept in 8 bits: blocks of neighbouring parameters share a
// scale, their largest magnitude, and each number is one of 256 multiples of it.
//
// The multiples are bitsandbytes' dynamic map (create_dynamic_map of bitsandbytes 0.50; Dettmers
// et al., 2022): seven decades, each twice as finely divided as the one below. Signed for a
// first moment or a momentum, unsigned for a second moment. Bits are given back by
// multiplying. A first moment is stored as the nearest of the 256: no error is larger than
// bitsandbytes'. A second moment is stored as one of its two neighbours, the nearer more often, so
// that it is right on average: in a step it moves by a thousandth, a tenth of what lies between two
// codes, and the nearest would be where it was, for as long as no gradient is large.
//
// For the CPU's loops and the GPU's kernels alike: nothing but arithmetic.
#pragma once

#include <cstdint>

#include "engine/numeric/number_formats.h"

namespace spillway {

// Parameters that share a scale. A block lies within one tile, one shard and one rank's share.
inline constexpr uint32_t kMomentBlock = 256;

// The codes of one sign rule, as tables.
struct MomentCode {
  // Cells: numbers in (0, 1] whose upper 16 bits are the same. No two codes' limit lies in one.
  static constexpr uint32_t kFirstCell = 0x3400;  // 2^-23: all below is nearest to zero
  static constexpr uint32_t kLastCell = 0x3f80;   // 1

  float values[256] = {};  // by code; ascending
  // By cell: the rank of its smallest number among the magnitudes, 0 for zero, in the upper
  // half; above which lower half the next rank begins, in the lower.
  uint32_t cells[kLastCell - kFirstCell + 1] = {};
  uint32_t zero = 0;          // the code of 0
  uint32_t largest_down = 0;  // of what is negative, the largest rank
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
    // The largest float that is no nearer to the next rank's.
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
// Every limit was met, and none in the cell that all smaller numbers are put in.
static_assert(kSignedMomentCode.cells[MomentCode::kLastCell - MomentCode::kFirstCell] >> 16 == 128);
static_assert(kUnsignedMomentCode.cells[MomentCode::kLastCell - MomentCode::kFirstCell] >> 16 ==
              255);
static_assert(kSignedMomentCode.cells[0] == 0xffff && kUnsignedMomentCode.cells[0] == 0xffff);

// The code whose value is nearest to value / scale. REQUIRES: scale > 0 and no smaller than
// the magnitude. Of what is not finite: some code.
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

// One of the two codes around value / scale (unsigned codes): the upper one with the part of the
// way that the value is beyond the lower. What is not zero never becomes it: updates are divided
// by it. REQUIRES: as MomentCodeOf.
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
