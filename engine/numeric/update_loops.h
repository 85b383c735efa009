// The loops over parameters behind OptimizerTiles and gradient sums: plain pointers in, no
// allocation, no errors. Vectorised for each SIMD target (simd_dispatch.h), same bits on all.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/numeric/dtype.h"
#include "engine/numeric/parameter_update.h"

namespace spillway {

// Parameters [begin, end) of a tile, and which constants are theirs. Where there are two of these,
// number 1 are those of parameters that decay.
struct UpdatePiece {
  uint64_t begin = 0;
  uint64_t end = 0;
  int constants = 0;
};

// Updates the ascending pieces of a tile in place. Returns the largest of what UpdateParameter
// does: at least FirstUnstorableMagnitude(kind.weights) means that one must not stand. A block of
// moments in codes that no piece touches stays as it is. REQUIRES, where moments are codes: the
// planes begin with a block, and `count` is whole blocks.
uint32_t UpdateParameters(const UpdateKind& kind, const UpdatePlanes& planes,
                          const std::vector<UpdatePiece>& pieces, const UpdateConstants* constants);

// Sums of squares, over 16 lanes.
struct UpdateSquares {
  double weights = 0;     // of masters, before the update
  double directions = 0;  // LambDirection
};

// Of the parameters [begin, end) of a tile; nothing is changed. REQUIRES: the rule is LAMB's; else
// as UpdateParameters.
UpdateSquares MeasureParameters(const UpdateKind& kind, const UpdatePlanes& planes, uint64_t begin,
                                uint64_t end, const UpdateConstants& constants);

// Position of the first unstorable master, and its value; count when there is none.
uint64_t FindUnstorable(WeightFormat format, const UpdatePlanes& planes, float* master);

// Rounds `count` sums to `dtype` (`gradient` may be `sums`); returns the sum of squares
// of the rounded values over 16 lanes. It is finite when and only when all values are:
// the square of the largest float is 1e77, so the sum of any number of them fits.
double RoundGradient(DType dtype, const void* sums, void* gradient, uint64_t count);

// The same of values that are rounded already.
double SumOfSquares(DType dtype, const void* gradient, uint64_t count);

// sums = float(gradient) when `first`, else sums + float(gradient), for `count`
// elements of one micro-batch's gradient. The two must not overlap.
void AccumulateGradient(DType dtype, const void* gradient, uint64_t count, float* sums, bool first);

// The same for sums in `dtype`, which have at most two terms: the second is added in fp32, and
// the sum rounded. Then they are, bit for bit, what rounding fp32 sums gives.
void AccumulateRounded(DType dtype, const void* gradient, uint64_t count, void* sums, bool first);

// `count` sums in 8 bits, in blocks of kMomentBlock, the last of which may be shorter: what
// engine/numeric/exchange_format.h says of kFloat8. A scale for every block.
void CodeGradient(const float* sums, uint64_t count, uint8_t* codes, float* scales);
void AccumulateCoded(const uint8_t* codes, const float* scales, uint64_t count, float* sums,
                     bool first);

}  // namespace spillway
