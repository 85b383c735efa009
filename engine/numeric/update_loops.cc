#include "engine/numeric/update_loops.h"

#include <cstring>
#include <type_traits>

#include "engine/numeric/coded_moments.h"
#include "engine/numeric/moment_blocks.h"
#include "engine/numeric/moment_code.h"
#include "engine/numeric/simd_dispatch.h"
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
    // For Adafactor the gradients are directions already.
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

// Updates parameters [from, to) of the planes.
template <WeightFormat kFormat, UpdateRule kRule, typename Moment>
UpdatePlanes PartOf(const UpdatePlanes& planes, uint64_t from, uint64_t to) {
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

// Calls the loop, which is compiled once for all ways to cut or decode a tile.
template <WeightFormat kFormat, UpdateRule kRule, typename Moment>
uint32_t UpdatePart(const UpdatePlanes& part, const UpdateConstants& constants) {
  return RunOnBestSimdTarget<UpdateLoop<kFormat, kRule, Moment>>(part, constants);
}

template <WeightFormat kFormat, UpdateRule kRule, typename Moment>
uint32_t UpdatePieces(const UpdatePlanes& planes, const std::vector<UpdatePiece>& pieces,
                      const UpdateConstants* constants) {
  uint32_t largest = 0;
  for (const UpdatePiece& piece : pieces) {
    const uint32_t bits = UpdatePart<kFormat, kRule, Moment>(
        PartOf<kFormat, kRule, Moment>(planes, piece.begin, piece.end), constants[piece.constants]);
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

template <MomentFormat kMoments>
SPILLWAY_ALWAYS_INLINE CodedMoments<kMoments> Codes() {
  if constexpr (kMoments == MomentFormat::kEightBit) {
    return {&kSignedMomentCode, &kUnsignedMomentCode};
  } else {
    return {};
  }
}

// The first or the second moments of a block of codes.
template <MomentFormat kMoments, bool kSecond>
struct DecodeLoop {
  using Code = std::conditional_t<kSecond, typename CodedMoments<kMoments>::Code2,
                                  typename CodedMoments<kMoments>::Code1>;

  static SPILLWAY_ALWAYS_INLINE void Run(const Code* codes, float scale, float* values) {
    const auto coded = Codes<kMoments>();
    DecodeBlock(codes, scale, values, [&](Code code) {
      if constexpr (kSecond) {
        return coded.Multiple2(code);
      } else {
        return coded.Multiple1(code);
      }
    });
  }
};
template <MomentFormat kMoments>
struct EncodeLoop1 {
  static SPILLWAY_ALWAYS_INLINE void Run(const float* values, void* codes, float* scale) {
    const auto coded = Codes<kMoments>();
    EncodeBlock(
        values, static_cast<typename CodedMoments<kMoments>::Code1*>(codes), scale,
        [&](float value, float divisor, uint32_t i) { return coded.Code1Of(value, divisor); });
  }
};
template <MomentFormat kMoments>
struct EncodeLoop2 {
  static SPILLWAY_ALWAYS_INLINE void Run(const float* values, void* codes, float* scale,
                                         uint32_t first_word, uint32_t key) {
    const auto coded = Codes<kMoments>();
    EncodeBlock(values, static_cast<typename CodedMoments<kMoments>::Code2*>(codes), scale,
                [&](float value, float divisor, uint32_t i) {
                  return coded.Code2Of(value, divisor, MixedBits((first_word + i) ^ key));
                });
  }
};

template <MomentFormat kMoments, bool kSecond>
void DecodeMoments(const UpdatePlanes& planes, uint64_t begin, float* values) {
  using Loop = DecodeLoop<kMoments, kSecond>;
  const void* const codes = kSecond ? planes.moment2 : planes.moment1;
  const float* const scales = kSecond ? planes.scales2 : planes.scales1;
  RunOnBestSimdTarget<Loop>(static_cast<const typename Loop::Code*>(codes) + begin,
                            scales[begin / kMomentBlock], values);
}

template <WeightFormat kFormat, UpdateRule kRule, MomentFormat kMoments>
uint32_t UpdateCodedPieces(const UpdatePlanes& planes, const std::vector<UpdatePiece>& pieces,
                           const UpdateConstants* constants) {
  using Coded = CodedMoments<kMoments>;
  alignas(64) float moment1[kMomentBlock] = {}, moment2[kMomentBlock] = {};
  uint32_t largest = 0;
  auto piece = pieces.begin();
  for (uint64_t begin = 0; begin < planes.count; begin += kMomentBlock) {
    const uint64_t end = begin + kMomentBlock, block = begin / kMomentBlock;
    while (piece != pieces.end() && piece->end <= begin) ++piece;
    if (piece == pieces.end()) break;
    if (piece->begin >= end) continue;
    if constexpr (HasMoment1(kRule)) DecodeMoments<kMoments, false>(planes, begin, moment1);
    if constexpr (HasMoment2(kRule)) DecodeMoments<kMoments, true>(planes, begin, moment2);
    for (auto p = piece; p != pieces.end() && p->begin < end; ++p) {
      const uint64_t from = p->begin < begin ? begin : p->begin;
      const uint64_t to = p->end < end ? p->end : end;
      UpdatePlanes part = PartOf<kFormat, kRule, uint8_t>(planes, from, to);
      part.moment1 = moment1 + (from - begin);
      part.moment2 = moment2 + (from - begin);
      const uint32_t bits = UpdatePart<kFormat, kRule, float>(part, constants[p->constants]);
      largest = bits > largest ? bits : largest;
    }
    if constexpr (HasMoment1(kRule)) {
      RunOnBestSimdTarget<EncodeLoop1<kMoments>>(
          moment1, static_cast<typename Coded::Code1*>(planes.moment1) + begin,
          planes.scales1 + block);
    }
    if constexpr (HasMoment2(kRule)) {
      RunOnBestSimdTarget<EncodeLoop2<kMoments>>(
          moment2, static_cast<typename Coded::Code2*>(planes.moment2) + begin,
          planes.scales2 + block, planes.first_word + static_cast<uint32_t>(begin),
          constants->rounding_key);
    }
  }
  return largest;
}

// Adafactor: the update directions of parameters [from, from + count) of a piece.
template <DType kDType>
struct FactoredDirections {
  static SPILLWAY_ALWAYS_INLINE void Run(PieceFactors factors, uint64_t from, uint64_t count,
                                         const void* gradients, float scale,
                                         float* __restrict directions) {
    const auto* gradient = static_cast<const typename Number<kDType>::Stored*>(gradients);
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
};

template <WeightFormat kFormat>
void Directions(const UpdatePlanes& planes, const UpdatePiece& piece, uint64_t begin,
                uint64_t count, float scale, float* directions) {
  using Stored = typename Number<DTypeOf(kFormat)>::Stored;
  const auto* gradient = static_cast<const Stored*>(planes.gradient);
  RunOnBestSimdTarget<FactoredDirections<DTypeOf(kFormat)>>(
      piece.factors, begin - piece.begin, count, gradient + begin, scale, directions);
}

template <WeightFormat kFormat>
uint32_t UpdateFactoredPieces(const UpdatePlanes& planes, const std::vector<UpdatePiece>& pieces,
                              const UpdateConstants* constants) {
  constexpr UpdateRule kRule = UpdateRule::kAdafactor;
  alignas(64) float directions[kLoopBlock];
  uint32_t largest = 0;
  for (const UpdatePiece& piece : pieces) {
    const UpdateConstants& c = constants[piece.constants];
    for (uint64_t begin = piece.begin; begin < piece.end; begin += kLoopBlock) {
      const uint64_t left = piece.end - begin, count = left < kLoopBlock ? left : kLoopBlock;
      Directions<kFormat>(planes, piece, begin, count, c.gradient_scale, directions);
      UpdatePlanes part = PartOf<kFormat, kRule, float>(planes, begin, begin + count);
      part.gradient = directions;
      const uint32_t bits = UpdatePart<kFormat, kRule, float>(part, c);
      largest = bits > largest ? bits : largest;
    }
  }
  return largest;
}

template <uint64_t kCount>
struct AddSquaresLoop {
  static SPILLWAY_ALWAYS_INLINE void Run(const float (*values)[kCount], Lanes* lanes) {
    lanes->AddSquares(*values);
  }
};

template <uint64_t kCount>
void AddSquares(const float (&values)[kCount], Lanes* lanes) {
  RunOnBestSimdTarget<AddSquaresLoop<kCount>>(&values, lanes);
}

// The masters [from, from + count) of the planes.
template <WeightFormat kFormat>
struct MastersLoop {
  static SPILLWAY_ALWAYS_INLINE void Run(const UpdatePlanes* planes, uint64_t from, uint64_t count,
                                         float* __restrict masters) {
    using Stored = typename Number<DTypeOf(kFormat)>::Stored;
    const auto* weight = static_cast<const Stored*>(planes->weight);
    const auto* residual = static_cast<const ResidualOf<kFormat>*>(planes->residual);
    const float* master = planes->master;
    for (uint64_t i = 0; i < count; ++i) {
      masters[i] = MasterOf<kFormat>(weight, residual, master, from + i);
    }
  }
};

// LAMB: the update directions for the gradients [from, from + count).
template <DType kDType>
struct LambDirections {
  static SPILLWAY_ALWAYS_INLINE void Run(const void* gradients, uint64_t from, uint64_t count,
                                         const float* __restrict masters, float* __restrict moment1,
                                         float* __restrict moment2, float* __restrict directions,
                                         UpdateConstants c) {
    const auto* gradient = static_cast<const typename Number<kDType>::Stored*>(gradients) + from;
    for (uint64_t i = 0; i < count; ++i) {
      const float g = Number<kDType>::ToFloat(gradient[i]) * c.gradient_scale;
      directions[i] = LambDirection(masters[i], g, &moment1[i], &moment2[i], c);
    }
  }
};

template <typename Moment>
struct MomentsLoop {
  static SPILLWAY_ALWAYS_INLINE void Run(const void* moments, uint64_t from, uint64_t count,
                                         float* __restrict values) {
    const auto* stored = static_cast<const Moment*>(moments) + from;
    for (uint64_t i = 0; i < count; ++i) values[i] = MomentOf(stored[i]);
  }
};

// Decodes parameters [from, to) of a block that starts at `block`, to their positions in it.
template <MomentFormat kMoments>
void ReadMoments(const UpdatePlanes& planes, uint64_t block, uint64_t from, uint64_t to,
                 float* moment1, float* moment2) {
  if constexpr (IsCoded(kMoments)) {
    DecodeMoments<kMoments, false>(planes, block, moment1);
    DecodeMoments<kMoments, true>(planes, block, moment2);
  } else {
    using Moment = std::conditional_t<kMoments == MomentFormat::kBFloat16, uint16_t, float>;
    using Read = MomentsLoop<Moment>;
    RunOnBestSimdTarget<Read>(planes.moment1, block + from, to - from, moment1 + from);
    RunOnBestSimdTarget<Read>(planes.moment2, block + from, to - from, moment2 + from);
  }
}

template <WeightFormat kFormat, MomentFormat kMoments>
UpdateSquares MeasureLamb(const UpdatePlanes& planes, const UpdatePiece& piece,
                          const UpdateConstants& c) {
  alignas(64) float weights[kMomentBlock], directions[kMomentBlock];
  alignas(64) float moment1[kMomentBlock], moment2[kMomentBlock];
  Lanes weight_lanes, direction_lanes;
  for (uint64_t block = piece.begin - piece.begin % kMomentBlock; block < piece.end;
       block += kMomentBlock) {
    const uint64_t from = piece.begin > block ? piece.begin - block : 0;
    const uint64_t left = piece.end - block, to = left < kMomentBlock ? left : kMomentBlock;
    ReadMoments<kMoments>(planes, block, from, to, moment1, moment2);
    if (to - from < kMomentBlock) {
      std::memset(weights, 0, sizeof(weights));
      std::memset(directions, 0, sizeof(directions));
    }
    RunOnBestSimdTarget<MastersLoop<kFormat>>(&planes, block + from, to - from, weights + from);
    RunOnBestSimdTarget<LambDirections<DTypeOf(kFormat)>>(planes.gradient, block + from, to - from,
                                                          weights + from, moment1 + from,
                                                          moment2 + from, directions + from, c);
    AddSquares(weights, &weight_lanes);
    AddSquares(directions, &direction_lanes);
  }
  return {weight_lanes.Sum(), direction_lanes.Sum()};
}

template <WeightFormat kFormat>
UpdateSquares MeasureFactored(const UpdatePlanes& planes, const UpdatePiece& piece,
                              const UpdateConstants& c) {
  alignas(64) float weights[kLoopBlock] = {}, directions[kLoopBlock];
  Lanes weight_lanes, direction_lanes;
  for (uint64_t begin = piece.begin; begin < piece.end; begin += kLoopBlock) {
    const uint64_t left = piece.end - begin, count = left < kLoopBlock ? left : kLoopBlock;
    if (count < kLoopBlock) {
      std::memset(weights, 0, sizeof(weights));
      std::memset(directions, 0, sizeof(directions));
    }
    Directions<kFormat>(planes, piece, begin, count, c.gradient_scale, directions);
    AddSquares(directions, &direction_lanes);
    if (planes.weight == nullptr) continue;
    RunOnBestSimdTarget<MastersLoop<kFormat>>(&planes, begin, count, weights);
    AddSquares(weights, &weight_lanes);
  }
  return {weight_lanes.Sum(), direction_lanes.Sum()};
}

}  // namespace

uint32_t UpdateParameters(const UpdateKind& kind, const UpdatePlanes& planes,
                          const std::vector<UpdatePiece>& pieces,
                          const UpdateConstants* constants) {
  const ScopedExactFloatMode mode;
  return ForUpdateKind(kind, [&](auto weights, auto rule, auto moments) {
    constexpr WeightFormat kFormat = decltype(weights)::kValue;
    constexpr UpdateRule kRule = decltype(rule)::kValue;
    constexpr MomentFormat kMoments = decltype(moments)::kValue;
    if constexpr (kRule == UpdateRule::kAdafactor) {
      return UpdateFactoredPieces<kFormat>(planes, pieces, constants);
    } else if constexpr (IsCoded(kMoments)) {
      SPILLWAY_CHECK(planes.count % kMomentBlock == 0);
      return UpdateCodedPieces<kFormat, kRule, kMoments>(planes, pieces, constants);
    } else {
      using Moment = std::conditional_t<kMoments == MomentFormat::kBFloat16, uint16_t, float>;
      return UpdatePieces<kFormat, kRule, Moment>(planes, pieces, constants);
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
      return MeasureFactored<kFormat>(planes, piece, constants);
    } else {
      return MeasureLamb<kFormat, decltype(moments)::kValue>(planes, piece, constants);
    }
  };
  return internal::ForUpdateKindOf<R::kLamb, R::kAdafactor>(kind, run);
}

uint64_t FindUnstorable(WeightFormat format, const UpdatePlanes& planes, float* master) {
  return ForWeightFormat(format, [&](auto weights) {
    constexpr WeightFormat kFormat = decltype(weights)::kValue;
    for (uint64_t i = 0; i < planes.count; ++i) {
      MastersLoop<kFormat>::Run(&planes, i, 1, master);
      if ((BitsOf(*master) & 0x7fffffff) >= FirstUnstorableMagnitude(format)) return i;
    }
    return planes.count;
  });
}

}  // namespace spillway
