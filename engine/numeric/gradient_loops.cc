#include "engine/numeric/gradient_loops.h"

#include <cmath>
#include <cstring>

#include "engine/numeric/coded_moments.h"
#include "engine/numeric/moment_blocks.h"
#include "engine/numeric/simd_dispatch.h"
#include "engine/numeric/square_lanes.h"
#include "engine/numeric/update_kind.h"

namespace spillway {
namespace {

// Splits a row's squares in parts. No sum of parts is rounded, so their order is free.
template <DType kDType>
struct RowSquaresLoop {
  static SPILLWAY_ALWAYS_INLINE void Run(const char* gradient, uint64_t count, SquareParts parts,
                                         double* columns_high, double* columns_low, double* row) {
    using Stored = typename Number<kDType>::Stored;
    const Stored* __restrict from = reinterpret_cast<const Stored*>(gradient);
    double* __restrict to_high = columns_high;
    double* __restrict to_low = columns_low;
    constexpr uint64_t kRowLanes = 16;
    alignas(64) double row_high[kRowLanes] = {}, row_low[kRowLanes] = {};
    const auto add = [&](uint64_t i, uint64_t lane) {
      const double g = Number<kDType>::ToFloat(from[i]);
      const double square = g * g;
      const double high = (square + parts.high) - parts.high;
      const double low = ((square - high) + parts.low) - parts.low;
      to_high[i] += high;
      to_low[i] += low;
      row_high[lane] += high;
      row_low[lane] += low;
    };
    uint64_t i = 0;
    for (; i + kRowLanes <= count; i += kRowLanes) {
#pragma GCC ivdep
      for (uint64_t lane = 0; lane < kRowLanes; ++lane) add(i + lane, lane);
    }
    for (; i < count; ++i) add(i, 0);
    for (uint64_t lane = 0; lane < kRowLanes; ++lane) {
      row[0] += row_high[lane];
      row[1] += row_low[lane];
    }
  }
};

// Works through small buffers, so that rounding in place overwrites only sums that were read.
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
      EncodeBlock(sums + begin, codes + begin, scales + begin / kMomentBlock, code_of);
    }
    if (whole == count) return;
    float values[kMomentBlock] = {};
    uint8_t coded[kMomentBlock];
    std::memcpy(values, sums + whole, (count - whole) * sizeof(float));
    EncodeBlock(values, coded, scales + whole / kMomentBlock, code_of);
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

}  // namespace

// A part's step is the last place of a number in [1, 2) times a power of two. The sum of squares is
// below half of `top`, so 2^52 of the first step hold it; the remainder of each of 2^log2_terms
// squares is at most half a step.
SquareParts::SquareParts(double sum_of_squares, int log2_terms) {
  if (!(sum_of_squares > 0)) return;  // all are 0, and so are their parts
  const int top = std::ilogb(sum_of_squares) + 2;
  high = std::ldexp(1.5, top);
  low = std::ldexp(1.5, top - 52 + log2_terms);
}

void AddRowSquares(DType dtype, const void* gradient, uint64_t count, const SquareParts& parts,
                   double* columns_high, double* columns_low, double* row) {
  const ScopedExactFloatMode mode;
  ForDType(dtype, [&](auto type) {
    RunOnBestSimdTarget<RowSquaresLoop<decltype(type)::kValue>>(
        static_cast<const char*>(gradient), count, parts, columns_high, columns_low, row);
  });
}

double RoundGradient(DType dtype, const void* sums, void* gradient, uint64_t count) {
  const ScopedExactFloatMode mode;
  return ForDType(dtype, [&](auto type) {
    return RunOnBestSimdTarget<RoundLoop<decltype(type)::kValue>>(
        static_cast<const char*>(sums), static_cast<char*>(gradient), count);
  });
}

double SumOfSquares(DType dtype, const void* gradient, uint64_t count) {
  const ScopedExactFloatMode mode;
  return ForDType(dtype, [&](auto type) {
    return RunOnBestSimdTarget<SquaresLoop<decltype(type)::kValue>>(
        static_cast<const char*>(gradient), count);
  });
}

void AccumulateRounded(DType dtype, const void* gradient, uint64_t count, void* sums, bool first) {
  if (first) {
    std::memcpy(sums, gradient, count * DTypeBytes(dtype));
    return;
  }
  const ScopedExactFloatMode mode;
  ForDType(dtype, [&](auto type) {
    RunOnBestSimdTarget<AddRoundedLoop<decltype(type)::kValue>>(gradient, count, sums);
  });
}

void AccumulateGradient(DType dtype, const void* gradient, uint64_t count, float* sums,
                        bool first) {
  const ScopedExactFloatMode mode;
  ForDType(dtype, [&](auto type) {
    constexpr DType kDType = decltype(type)::kValue;
    if (first) {
      RunOnBestSimdTarget<AccumulateLoop<kDType, true>>(gradient, count, sums);
    } else {
      RunOnBestSimdTarget<AccumulateLoop<kDType, false>>(gradient, count, sums);
    }
  });
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
