// Loops over gradients and their sums: plain pointers, no allocation, no errors. Vectorised for
// each SIMD target (simd_dispatch.h), with the same bits on all.
#pragma once

#include <cstdint>

#include "engine/numeric/dtype.h"

namespace spillway {

// Rounds `count` sums to `dtype` (`gradient` may be `sums`); returns the sum of squares
// of the rounded values over 16 lanes. It is finite when and only when all values are:
// the square of the largest float is 1e77, so the sum of any number of them fits.
double RoundGradient(DType dtype, const void* sums, void* gradient, uint64_t count);

// The sum of squares of values that are rounded already.
double SumOfSquares(DType dtype, const void* gradient, uint64_t count);

// sums = float(gradient) when `first`, else sums + float(gradient), for `count`
// elements of one micro-batch's gradient. The two must not overlap.
void AccumulateGradient(DType dtype, const void* gradient, uint64_t count, float* sums, bool first);

// AccumulateGradient for sums in `dtype` with at most two terms: the second is added in fp32 and
// the sum rounded, which gives the bits of rounding fp32 sums.
void AccumulateRounded(DType dtype, const void* gradient, uint64_t count, void* sums, bool first);

// Encodes `count` sums in 8 bits, in blocks of kMomentBlock (the last may be shorter) with a scale
// each, as engine/numeric/exchange_format.h describes for kFloat8.
void CodeGradient(const float* sums, uint64_t count, uint8_t* codes, float* scales);
void AccumulateCoded(const uint8_t* codes, const float* scales, uint64_t count, float* sums,
                     bool first);

// How to split squares whose sum is known so that no sum of 2^log2_terms of either part is rounded:
// adding and then subtracting the number whose last place is the part's step leaves a multiple of
// that step.
struct SquareParts {
  SquareParts() = default;
  SquareParts(double sum_of_squares, int log2_terms);

  double high = 0;
  double low = 0;
};

// Adds the squares of `count` gradients of one row in parts: to the columns' sums, an array for
// each part, and to the row's sums {high, low}.
void AddRowSquares(DType dtype, const void* gradient, uint64_t count, const SquareParts& parts,
                   double* columns_high, double* columns_low, double* row);

}  // namespace spillway
