#include "engine/numeric/update_loops.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "engine/numeric/coded_moments.h"
#include "engine/numeric/moment_code.h"
#include "engine/numeric/simd_dispatch.h"
#include "engine/numeric/split_master.h"
#include "io/base/check.h"

namespace spillway {
namespace {

template <WeightFormat kFormat, UpdateRule kRule, typename Moment>
struct UpdateLoop {
  static SPILLWAY_ALWAYS_INLINE uint32_t Run(UpdatePlanes planes, UpdateConstants constants) {
    using Stored = typename Number<DTypeOf(kFormat)>::Stored;
    Stored* __restrict weight = static_cast<Stored*>(planes.weight);
    uint16_t* __restrict residual = planes.residual;
    float* __restrict master = planes.master;
    Moment* __restrict moment1 = static_cast<Moment*>(planes.moment1);
    Moment* __restrict moment2 = static_cast<Moment*>(planes.moment2);
    const Stored* __restrict gradient = static_cast<const Stored*>(planes.gradient);
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
  if constexpr (kFormat == WeightFormat::kBFloat16) part.residual += from;
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

// One kind of moment of one block, as numbers.
template <typename Code, typename Multiple>
SPILLWAY_ALWAYS_INLINE void Decode(const Code* codes, float scale, float* __restrict values,
                                   const Multiple& multiple) {
#pragma GCC ivdep
  for (uint32_t i = 0; i < kMomentBlock; ++i) values[i] = multiple(codes[i]) * scale;
}

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
    Decode(static_cast<const typename Coded::Code1*>(planes.moment1) + block,
           planes.scales1[block / kMomentBlock], moment1,
           [&](typename Coded::Code1 code) { return coded.Multiple1(code); });
    Decode(static_cast<const typename Coded::Code2*>(planes.moment2) + block,
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

template <typename Code, typename CodeOf>
SPILLWAY_ALWAYS_INLINE void Encode(const float* values, Code* __restrict codes, float* scale,
                                   const CodeOf& code_of) {
  uint32_t largest = 0;
  for (uint32_t i = 0; i < kMomentBlock; ++i) {
    const uint32_t magnitude = BitsOf(values[i]) & 0x7fffffff;
    largest = magnitude > largest ? magnitude : largest;
  }
  *scale = FloatOfBits(largest);
  // Of zeros any code serves, but one is enough.
  const float divisor = largest == 0 ? 1.0f : *scale;
#pragma GCC ivdep
  for (uint32_t i = 0; i < kMomentBlock; ++i) codes[i] = code_of(values[i], divisor, i);
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
        Decode(codes1 + begin, planes.scales1[block], moment1,
               [&](Code1 code) { return coded.Multiple1(code); });
      }
      if constexpr (HasMoment2(kRule)) {
        Decode(codes2 + begin, planes.scales2[block], moment2,
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
        Encode(moment1, codes1 + begin, planes.scales1 + block,
               [&](float value, float scale, uint32_t i) { return coded.Code1Of(value, scale); });
      }
      if constexpr (HasMoment2(kRule)) {
        const uint32_t first_word = planes.first_word + static_cast<uint32_t>(begin);
        const uint32_t key = constants->rounding_key;
        Encode(moment2, codes2 + begin, planes.scales2 + block,
               [&](float value, float scale, uint32_t i) {
                 return coded.Code2Of(value, scale, MixedBits((first_word + i) ^ key));
               });
      }
    }
    return largest;
  }
};

constexpr uint64_t kLoopBlock = 512;

// Squares over 16 lanes, which are added in order at the end.
class Lanes {
 public:
  template <uint64_t kCount>
  SPILLWAY_ALWAYS_INLINE void AddSquares(const float (&values)[kCount]) {
    for (uint64_t i = 0; i < kCount; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const double value = values[i + lane];
        lanes_[lane] += value * value;
      }
    }
  }
  SPILLWAY_ALWAYS_INLINE double Sum() const {
    double sum = 0;
    for (double lane : lanes_) {
      sum += lane;
    }
    return sum;
  }

 private:
  static constexpr int kLanes = 16;
  alignas(64) double lanes_[kLanes] = {};
};

template <WeightFormat kFormat, MomentFormat kMoments>
struct MeasureLoop {
  static SPILLWAY_ALWAYS_INLINE UpdateSquares Run(const UpdatePlanes& planes, uint64_t begin,
                                                  uint64_t end, const UpdateConstants& c) {
    using Weight = Number<DTypeOf(kFormat)>;
    using Stored = typename Weight::Stored;
    const auto* const weight = static_cast<const Stored*>(planes.weight);
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
        const float p = MasterOf<kFormat>(weight, planes.residual, planes.master, block + i);
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

// Through small buffers, so that rounding in place overwrites only what was read.
template <DType kDType>
struct RoundLoop {
  static SPILLWAY_ALWAYS_INLINE double Run(const char* sums, char* gradient, uint64_t count) {
    using Stored = typename Number<kDType>::Stored;
    alignas(64) float values[kLoopBlock];
    alignas(64) Stored rounded[kLoopBlock];
    Lanes lanes;
    for (uint64_t begin = 0; begin < count; begin += kLoopBlock) {
      const uint64_t block = count - begin < kLoopBlock ? count - begin : kLoopBlock;
      if (block < kLoopBlock) {
        std::memset(values, 0, sizeof(values));
      }
      std::memcpy(values, sums + begin * sizeof(float), block * sizeof(float));
      for (uint64_t i = 0; i < kLoopBlock; ++i) {
        rounded[i] = Number<kDType>::FromFloat(values[i]);
        values[i] = Number<kDType>::ToFloat(rounded[i]);
      }
      std::memcpy(gradient + begin * sizeof(Stored), rounded, block * sizeof(Stored));
      lanes.AddSquares(values);
    }
    return lanes.Sum();
  }
};

template <DType kDType>
struct SquaresLoop {
  static SPILLWAY_ALWAYS_INLINE double Run(const char* gradient, uint64_t count) {
    using Stored = typename Number<kDType>::Stored;
    alignas(64) float values[kLoopBlock];
    alignas(64) Stored rounded[kLoopBlock];
    Lanes lanes;
    for (uint64_t begin = 0; begin < count; begin += kLoopBlock) {
      const uint64_t block = count - begin < kLoopBlock ? count - begin : kLoopBlock;
      if (block < kLoopBlock) {
        std::memset(rounded, 0, sizeof(rounded));
      }
      std::memcpy(rounded, gradient + begin * sizeof(Stored), block * sizeof(Stored));
      for (uint64_t i = 0; i < kLoopBlock; ++i) {
        values[i] = Number<kDType>::ToFloat(rounded[i]);
      }
      lanes.AddSquares(values);
    }
    return lanes.Sum();
  }
};

template <DType kDType, bool kFirst>
struct AccumulateLoop {
  static SPILLWAY_ALWAYS_INLINE void Run(const void* gradient, uint64_t count, float* sums) {
    using Stored = typename Number<kDType>::Stored;
    const Stored* __restrict from = static_cast<const Stored*>(gradient);
    float* __restrict to = sums;
#pragma GCC ivdep
    for (uint64_t i = 0; i < count; ++i) {
      const float value = Number<kDType>::ToFloat(from[i]);
      to[i] = kFirst ? value : to[i] + value;
    }
  }
};

template <DType kDType>
struct AddRoundedLoop {
  static SPILLWAY_ALWAYS_INLINE void Run(const void* gradient, uint64_t count, void* sums) {
    using Stored = typename Number<kDType>::Stored;
    const Stored* __restrict from = static_cast<const Stored*>(gradient);
    Stored* __restrict to = static_cast<Stored*>(sums);
#pragma GCC ivdep
    for (uint64_t i = 0; i < count; ++i) {
      to[i] = Number<kDType>::FromFloat(Number<kDType>::ToFloat(to[i]) +
                                        Number<kDType>::ToFloat(from[i]));
    }
  }
};

using Coded8 = CodedMoments<MomentFormat::kFloat8>;

struct CodeLoop {
  static SPILLWAY_ALWAYS_INLINE void Run(const float* sums, uint64_t count, uint8_t* codes,
                                         float* scales) {
    const auto code_of = [](float value, float scale, uint32_t) {
      return Coded8().Code1Of(value, scale);
    };
    const uint64_t whole = count / kMomentBlock * kMomentBlock;
    for (uint64_t begin = 0; begin < whole; begin += kMomentBlock) {
      Encode(sums + begin, codes + begin, scales + begin / kMomentBlock, code_of);
    }
    if (whole == count) return;
    float values[kMomentBlock] = {};
    uint8_t coded[kMomentBlock];
    std::memcpy(values, sums + whole, (count - whole) * sizeof(float));
    Encode(values, coded, scales + whole / kMomentBlock, code_of);
    std::memcpy(codes + whole, coded, count - whole);
  }
};

template <bool kFirst>
struct AccumulateCodedLoop {
  static SPILLWAY_ALWAYS_INLINE void Run(const uint8_t* codes, const float* scales, uint64_t count,
                                         float* sums) {
    for (uint64_t begin = 0; begin < count; begin += kMomentBlock) {
      const float scale = scales[begin / kMomentBlock];
      const uint8_t* __restrict from = codes + begin;
      float* __restrict to = sums + begin;
      const uint64_t n = count - begin < kMomentBlock ? count - begin : kMomentBlock;
#pragma GCC ivdep
      for (uint64_t i = 0; i < n; ++i) {
        const float value = Coded8().Multiple1(from[i]) * scale;
        to[i] = kFirst ? value : to[i] + value;
      }
    }
  }
};

template <DType kDType>
void AccumulateAs(const void* gradient, uint64_t count, float* sums, bool first) {
  if (first) {
    RunOnBestSimdTarget<AccumulateLoop<kDType, true>>(gradient, count, sums);
  } else {
    RunOnBestSimdTarget<AccumulateLoop<kDType, false>>(gradient, count, sums);
  }
}

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
    if constexpr (IsCoded(kMoments)) {
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

UpdateSquares MeasureParameters(const UpdateKind& kind, const UpdatePlanes& planes, uint64_t begin,
                                uint64_t end, const UpdateConstants& constants) {
  SPILLWAY_CHECK(kind.rule == UpdateRule::kLamb);
  const ScopedExactFloatMode mode;
  return internal::ForUpdateKindOf<UpdateRule::kLamb>(kind, [&](auto weights, auto rule,
                                                                auto moments) {
    return RunOnBestSimdTarget<MeasureLoop<decltype(weights)::kValue, decltype(moments)::kValue>>(
        planes, begin, end, constants);
  });
}

uint64_t FindUnstorable(WeightFormat format, const UpdatePlanes& planes, float* master) {
  const auto* const halves = static_cast<const uint16_t*>(planes.weight);
  for (uint64_t i = 0; i < planes.count; ++i) {
    switch (format) {
      case WeightFormat::kFloat32:
        *master = static_cast<const float*>(planes.weight)[i];
        break;
      case WeightFormat::kBFloat16:
        *master = Join(halves[i], planes.residual[i]);
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

double RoundGradient(DType dtype, const void* sums, void* gradient, uint64_t count) {
  const ScopedExactFloatMode mode;
  const char* from = static_cast<const char*>(sums);
  char* to = static_cast<char*>(gradient);
  switch (dtype) {
    case DType::kFloat32:
      return RunOnBestSimdTarget<RoundLoop<DType::kFloat32>>(from, to, count);
    case DType::kBFloat16:
      return RunOnBestSimdTarget<RoundLoop<DType::kBFloat16>>(from, to, count);
    case DType::kFloat16:
      return RunOnBestSimdTarget<RoundLoop<DType::kFloat16>>(from, to, count);
  }
  SPILLWAY_CHECK(false);
}

double SumOfSquares(DType dtype, const void* gradient, uint64_t count) {
  const ScopedExactFloatMode mode;
  const char* from = static_cast<const char*>(gradient);
  switch (dtype) {
    case DType::kFloat32:
      return RunOnBestSimdTarget<SquaresLoop<DType::kFloat32>>(from, count);
    case DType::kBFloat16:
      return RunOnBestSimdTarget<SquaresLoop<DType::kBFloat16>>(from, count);
    case DType::kFloat16:
      return RunOnBestSimdTarget<SquaresLoop<DType::kFloat16>>(from, count);
  }
  SPILLWAY_CHECK(false);
}

void AccumulateRounded(DType dtype, const void* gradient, uint64_t count, void* sums, bool first) {
  if (first) {
    std::memcpy(sums, gradient, count * DTypeBytes(dtype));
    return;
  }
  const ScopedExactFloatMode mode;
  switch (dtype) {
    case DType::kFloat32:
      return RunOnBestSimdTarget<AddRoundedLoop<DType::kFloat32>>(gradient, count, sums);
    case DType::kBFloat16:
      return RunOnBestSimdTarget<AddRoundedLoop<DType::kBFloat16>>(gradient, count, sums);
    case DType::kFloat16:
      return RunOnBestSimdTarget<AddRoundedLoop<DType::kFloat16>>(gradient, count, sums);
  }
  SPILLWAY_CHECK(false);
}

void AccumulateGradient(DType dtype, const void* gradient, uint64_t count, float* sums,
                        bool first) {
  const ScopedExactFloatMode mode;
  switch (dtype) {
    case DType::kFloat32:
      return AccumulateAs<DType::kFloat32>(gradient, count, sums, first);
    case DType::kBFloat16:
      return AccumulateAs<DType::kBFloat16>(gradient, count, sums, first);
    case DType::kFloat16:
      return AccumulateAs<DType::kFloat16>(gradient, count, sums, first);
  }
  SPILLWAY_CHECK(false);
}

void CodeGradient(const float* sums, uint64_t count, uint8_t* codes, float* scales) {
  const ScopedExactFloatMode mode;
  RunOnBestSimdTarget<CodeLoop>(sums, count, codes, scales);
}

void AccumulateCoded(const uint8_t* codes, const float* scales, uint64_t count, float* sums,
                     bool first) {
  const ScopedExactFloatMode mode;
  if (first) {
    RunOnBestSimdTarget<AccumulateCodedLoop<true>>(codes, scales, count, sums);
  } else {
    RunOnBestSimdTarget<AccumulateCodedLoop<false>>(codes, scales, count, sums);
  }
}

}  // namespace spillway
