#include "engine/numeric/update_loops.h"

#include <cstring>
#include <type_traits>

#include "engine/numeric/coded_moments.h"
#include "engine/numeric/moment_blocks.h"
#include "engine/numeric/moment_code.h"
#include "engine/numeric/simd_dispatch.h"
#include "engine/numeric/split_master.h"
#include "engine/numeric/square_lanes.h"
#include "io/base/check.h"

namespace spillway {
namespace {

template <WeightFormat kFormat, UpdateRule kRule, typename Moment>
struct UpdateLoop {
  static SPILLWAY_ALWAYS_INLINE uint32_t Run(UpdatePlanes planes, UpdateConstants constants) {
    using Stored = typename Number<DTypeOf(kFormat)>::Stored;
    Stored* __restrict weight = static_cast<Stored*>(planes.weight);
    auto* __restrict residual = static_cast<ResidualOf<kFormat>*>(planes.residual);
    float* __restrict master = planes.master;
    Moment* __restrict moment1 = static_cast<Moment*>(planes.moment1);
    Moment* __restrict moment2 = static_cast<Moment*>(planes.moment2);
    // Adafactor's loop has made directions of them.
    using Gradient = std::conditional_t<kRule == UpdateRule::kAdafactor, float, Stored>;
    const Gradient* __restrict gradient = static_cast<const Gradient*>(planes.gradient);
    uint32_t largest = 0;
#pragma GCC ivdep
    for (uint64_t i = 0; i < planes.count; ++i) {
      const uint32_t magnitude =
          UpdateParameter<kFormat, kRule>(weight, residual, master, moment1, moment2, gradient, i,
                                          planes.first_word + static_cast<uint32_t>(i), constants);
      largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
  }
};

// Parameters [from, to) of the planes.
template <WeightFormat kFormat, UpdateRule kRule, typename Moment>
SPILLWAY_ALWAYS_INLINE UpdatePlanes PartOf(const UpdatePlanes& planes, uint64_t from, uint64_t to) {
  using Stored = typename Number<DTypeOf(kFormat)>::Stored;
  UpdatePlanes part = planes;
  part.weight = static_cast<Stored*>(planes.weight) + from;
  if constexpr (HasResidual(kFormat)) {
    part.residual = static_cast<ResidualOf<kFormat>*>(planes.residual) + from;
  }
  if constexpr (kFormat == WeightFormat::kFloat16) part.master += from;
  if constexpr (HasMoment1(kRule)) part.moment1 = static_cast<Moment*>(planes.moment1) + from;
  if constexpr (HasMoment2(kRule)) part.moment2 = static_cast<Moment*>(planes.moment2) + from;
  part.gradient = static_cast<const Stored*>(planes.gradient) + from;
  part.count = to - from;
  part.first_word += static_cast<uint32_t>(from);
  return part;
}

template <WeightFormat kFormat, UpdateRule kRule, typename Moment>
struct PiecesLoop {
  static SPILLWAY_ALWAYS_INLINE uint32_t Run(const UpdatePlanes& planes, const UpdatePiece* piece,
                                             const UpdatePiece* last_piece,
                                             const UpdateConstants* constants) {
    uint32_t largest = 0;
    for (; piece != last_piece; ++piece) {
      const uint32_t bits = UpdateLoop<kFormat, kRule, Moment>::Run(
          PartOf<kFormat, kRule, Moment>(planes, piece->begin, piece->end),
          constants[piece->constants]);
      largest = bits > largest ? bits : largest;
    }
    return largest;
  }
};

template <MomentFormat kMoments>
SPILLWAY_ALWAYS_INLINE CodedMoments<kMoments> Codes() {
  if constexpr (kMoments == MomentFormat::kEightBit) {
    return {&kSignedMomentCode, &kUnsignedMomentCode};
  } else {
    return {};
  }
}

// Parameters [from, to) of the block of moments that begins at `block`.
template <MomentFormat kMoments>
SPILLWAY_ALWAYS_INLINE void ReadMoments(const UpdatePlanes& planes, uint64_t block, uint32_t from,
                                        uint32_t to, float* moment1, float* moment2) {
  if constexpr (IsCoded(kMoments)) {
    using Coded = CodedMoments<kMoments>;
    const Coded coded = Codes<kMoments>();
    DecodeBlock(static_cast<const typename Coded::Code1*>(planes.moment1) + block,
                planes.scales1[block / kMomentBlock], moment1,
                [&](typename Coded::Code1 code) { return coded.Multiple1(code); });
    DecodeBlock(static_cast<const typename Coded::Code2*>(planes.moment2) + block,
                planes.scales2[block / kMomentBlock], moment2,
                [&](typename Coded::Code2 code) { return coded.Multiple2(code); });
  } else {
    using Moment = std::conditional_t<kMoments == MomentFormat::kBFloat16, uint16_t, float>;
    for (uint32_t i = from; i < to; ++i) {
      moment1[i] = MomentOf(static_cast<const Moment*>(planes.moment1)[block + i]);
      moment2[i] = MomentOf(static_cast<const Moment*>(planes.moment2)[block + i]);
    }
  }
}

template <WeightFormat kFormat, UpdateRule kRule, MomentFormat kMoments>
struct CodedPiecesLoop {
  static SPILLWAY_ALWAYS_INLINE uint32_t Run(const UpdatePlanes& planes, const UpdatePiece* piece,
                                             const UpdatePiece* last_piece,
                                             const UpdateConstants* constants) {
    using Coded = CodedMoments<kMoments>;
    using Code1 = typename Coded::Code1;
    using Code2 = typename Coded::Code2;
    const Coded coded = Codes<kMoments>();
    auto* const codes1 = static_cast<Code1*>(planes.moment1);
    auto* const codes2 = static_cast<Code2*>(planes.moment2);
    alignas(64) float moment1[kMomentBlock] = {}, moment2[kMomentBlock] = {};
    uint32_t largest = 0;
    for (uint64_t begin = 0; begin < planes.count; begin += kMomentBlock) {
      const uint64_t end = begin + kMomentBlock, block = begin / kMomentBlock;
      while (piece != last_piece && piece->end <= begin) ++piece;
      if (piece == last_piece) break;
      if (piece->begin >= end) continue;
      if constexpr (HasMoment1(kRule)) {
        DecodeBlock(codes1 + begin, planes.scales1[block], moment1,
                    [&](Code1 code) { return coded.Multiple1(code); });
      }
      if constexpr (HasMoment2(kRule)) {
        DecodeBlock(codes2 + begin, planes.scales2[block], moment2,
                    [&](Code2 code) { return coded.Multiple2(code); });
      }
      for (const UpdatePiece* p = piece; p != last_piece && p->begin < end; ++p) {
        const uint64_t from = p->begin < begin ? begin : p->begin;
        const uint64_t to = p->end < end ? p->end : end;
        UpdatePlanes part = PartOf<kFormat, kRule, uint8_t>(planes, from, to);
        part.moment1 = moment1 + (from - begin);
        part.moment2 = moment2 + (from - begin);
        const uint32_t bits = UpdateLoop<kFormat, kRule, float>::Run(part, constants[p->constants]);
        largest = bits > largest ? bits : largest;
      }
      if constexpr (HasMoment1(kRule)) {
        EncodeBlock(
            moment1, codes1 + begin, planes.scales1 + block,
            [&](float value, float scale, uint32_t i) { return coded.Code1Of(value, scale); });
      }
      if constexpr (HasMoment2(kRule)) {
        const uint32_t first_word = planes.first_word + static_cast<uint32_t>(begin);
        const uint32_t key = constants->rounding_key;
        EncodeBlock(moment2, codes2 + begin, planes.scales2 + block,
                    [&](float value, float scale, uint32_t i) {
                      return coded.Code2Of(value, scale, MixedBits((first_word + i) ^ key));
                    });
      }
    }
    return largest;
  }
};

// Adafactor: along which the parameters [from, from + count) of a piece are to move.
template <DType kDType>
SPILLWAY_ALWAYS_INLINE void FactoredDirections(const PieceFactors& factors, uint64_t from,
                                               uint64_t count,
                                               const typename Number<kDType>::Stored* gradient,
                                               float scale, float* __restrict directions) {
  uint64_t row = (factors.first + from) / factors.row_length;
  uint64_t column = (factors.first + from) % factors.row_length;
  for (uint64_t done = 0; done < count; ++row, column = 0) {
    const uint64_t left = count - done, of_row = factors.row_length - column;
    const uint64_t n = left < of_row ? left : of_row;
    const float of_its_row = factors.rows[row];
    const float* __restrict columns = factors.columns + column;
#pragma GCC ivdep
    for (uint64_t i = 0; i < n; ++i) {
      const float g = Number<kDType>::ToFloat(gradient[done + i]) * scale;
      directions[done + i] = (of_its_row * columns[i]) * g;
    }
    done += n;
  }
}

template <WeightFormat kFormat>
struct FactoredPiecesLoop {
  static SPILLWAY_ALWAYS_INLINE uint32_t Run(const UpdatePlanes& planes, const UpdatePiece* piece,
                                             const UpdatePiece* last_piece,
                                             const UpdateConstants* constants) {
    constexpr DType kDType = DTypeOf(kFormat);
    const auto* const gradient =
        static_cast<const typename Number<kDType>::Stored*>(planes.gradient);
    alignas(64) float directions[kLoopBlock];
    uint32_t largest = 0;
    for (; piece != last_piece; ++piece) {
      const UpdateConstants& c = constants[piece->constants];
      for (uint64_t begin = piece->begin; begin < piece->end; begin += kLoopBlock) {
        const uint64_t left = piece->end - begin, count = left < kLoopBlock ? left : kLoopBlock;
        FactoredDirections<kDType>(piece->factors, begin - piece->begin, count, gradient + begin,
                                   c.gradient_scale, directions);
        UpdatePlanes part =
            PartOf<kFormat, UpdateRule::kAdafactor, float>(planes, begin, begin + count);
        part.gradient = directions;
        const uint32_t bits = UpdateLoop<kFormat, UpdateRule::kAdafactor, float>::Run(part, c);
        largest = bits > largest ? bits : largest;
      }
    }
    return largest;
  }
};

template <WeightFormat kFormat, MomentFormat kMoments>
struct MeasureLoop {
  static SPILLWAY_ALWAYS_INLINE UpdateSquares Run(const UpdatePlanes& planes, uint64_t begin,
                                                  uint64_t end, const UpdateConstants& c) {
    using Weight = Number<DTypeOf(kFormat)>;
    using Stored = typename Weight::Stored;
    const auto* const weight = static_cast<const Stored*>(planes.weight);
    const auto* const residual = static_cast<const ResidualOf<kFormat>*>(planes.residual);
    const auto* const gradient = static_cast<const Stored*>(planes.gradient);
    alignas(64) float weights[kMomentBlock], directions[kMomentBlock];
    alignas(64) float moment1[kMomentBlock], moment2[kMomentBlock];
    Lanes weight_lanes, direction_lanes;
    for (uint64_t block = begin - begin % kMomentBlock; block < end; block += kMomentBlock) {
      const uint32_t from = begin > block ? static_cast<uint32_t>(begin - block) : 0;
      const uint32_t to = end - block < kMomentBlock ? static_cast<uint32_t>(end - block)
                                                     : static_cast<uint32_t>(kMomentBlock);
      ReadMoments<kMoments>(planes, block, from, to, moment1, moment2);
      if (to - from < kMomentBlock) {
        std::memset(weights, 0, sizeof(weights));
        std::memset(directions, 0, sizeof(directions));
      }
      for (uint32_t i = from; i < to; ++i) {
        const float p = MasterOf<kFormat>(weight, residual, planes.master, block + i);
        const float g = Weight::ToFloat(gradient[block + i]) * c.gradient_scale;
        weights[i] = p;
        directions[i] = LambDirection(p, g, &moment1[i], &moment2[i], c);
      }
      weight_lanes.AddSquares(weights);
      direction_lanes.AddSquares(directions);
    }
    return {weight_lanes.Sum(), direction_lanes.Sum()};
  }
};

template <WeightFormat kFormat>
struct FactoredMeasureLoop {
  static SPILLWAY_ALWAYS_INLINE UpdateSquares Run(const UpdatePlanes& planes,
                                                  const UpdatePiece& piece,
                                                  const UpdateConstants& c) {
    constexpr DType kDType = DTypeOf(kFormat);
    using Stored = typename Number<kDType>::Stored;
    const auto* const weight = static_cast<const Stored*>(planes.weight);
    const auto* const residual = static_cast<const ResidualOf<kFormat>*>(planes.residual);
    const auto* const gradient = static_cast<const Stored*>(planes.gradient);
    alignas(64) float weights[kLoopBlock] = {}, directions[kLoopBlock];
    Lanes weight_lanes, direction_lanes;
    for (uint64_t begin = piece.begin; begin < piece.end; begin += kLoopBlock) {
      const uint64_t left = piece.end - begin, count = left < kLoopBlock ? left : kLoopBlock;
      if (count < kLoopBlock) {
        std::memset(weights, 0, sizeof(weights));
        std::memset(directions, 0, sizeof(directions));
      }
      FactoredDirections<kDType>(piece.factors, begin - piece.begin, count, gradient + begin,
                                 c.gradient_scale, directions);
      direction_lanes.AddSquares(directions);
      if (weight == nullptr) continue;
      for (uint64_t i = 0; i < count; ++i) {
        weights[i] = MasterOf<kFormat>(weight, residual, planes.master, begin + i);
      }
      weight_lanes.AddSquares(weights);
    }
    return {weight_lanes.Sum(), direction_lanes.Sum()};
  }
};

}  // namespace

uint32_t UpdateParameters(const UpdateKind& kind, const UpdatePlanes& planes,
                          const std::vector<UpdatePiece>& pieces,
                          const UpdateConstants* constants) {
  const ScopedExactFloatMode mode;
  const UpdatePiece* const first = pieces.data();
  const UpdatePiece* const last = first + pieces.size();
  return ForUpdateKind(kind, [&](auto weights, auto rule, auto moments) {
    constexpr WeightFormat kFormat = decltype(weights)::kValue;
    constexpr UpdateRule kRule = decltype(rule)::kValue;
    constexpr MomentFormat kMoments = decltype(moments)::kValue;
    if constexpr (kRule == UpdateRule::kAdafactor) {
      return RunOnBestSimdTarget<FactoredPiecesLoop<kFormat>>(planes, first, last, constants);
    } else if constexpr (IsCoded(kMoments)) {
      SPILLWAY_CHECK(planes.count % kMomentBlock == 0);
      return RunOnBestSimdTarget<CodedPiecesLoop<kFormat, kRule, kMoments>>(planes, first, last,
                                                                            constants);
    } else {
      using Moment = std::conditional_t<kMoments == MomentFormat::kBFloat16, uint16_t, float>;
      return RunOnBestSimdTarget<PiecesLoop<kFormat, kRule, Moment>>(planes, first, last,
                                                                     constants);
    }
  });
}

UpdateSquares MeasureParameters(const UpdateKind& kind, const UpdatePlanes& planes,
                                const UpdatePiece& piece, const UpdateConstants& constants) {
  using R = UpdateRule;
  SPILLWAY_CHECK(kind.rule == R::kLamb || kind.rule == R::kAdafactor);
  const ScopedExactFloatMode mode;
  const auto run = [&](auto weights, auto rule, auto moments) {
    constexpr WeightFormat kFormat = decltype(weights)::kValue;
    if constexpr (decltype(rule)::kValue == R::kAdafactor) {
      return RunOnBestSimdTarget<FactoredMeasureLoop<kFormat>>(planes, piece, constants);
    } else {
      return RunOnBestSimdTarget<MeasureLoop<kFormat, decltype(moments)::kValue>>(
          planes, piece.begin, piece.end, constants);
    }
  };
  return internal::ForUpdateKindOf<R::kLamb, R::kAdafactor>(kind, run);
}

uint64_t FindUnstorable(WeightFormat format, const UpdatePlanes& planes, float* master) {
  const auto* const halves = static_cast<const uint16_t*>(planes.weight);
  for (uint64_t i = 0; i < planes.count; ++i) {
    switch (format) {
      case WeightFormat::kFloat32:
        *master = static_cast<const float*>(planes.weight)[i];
        break;
      case WeightFormat::kBFloat16:
        *master = Join(halves[i], static_cast<const uint16_t*>(planes.residual)[i]);
        break;
      case WeightFormat::kBFloat16Byte:
        *master = Join(halves[i], static_cast<const uint8_t*>(planes.residual)[i]);
        break;
      case WeightFormat::kFloat16:
        *master = planes.master[i];
        break;
      case WeightFormat::kBFloat16Alone:
        *master = FloatFromBFloat16(halves[i]);
        break;
    }
    if ((BitsOf(*master) & 0x7fffffff) >= FirstUnstorableMagnitude(format)) {
      return i;
    }
  }
  return planes.count;
}

}  // namespace spillway
