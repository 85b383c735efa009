// Sums of squares with the same bits on every SIMD target.
#pragma once

#include <cstdint>

#include "engine/numeric/number_formats.h"

namespace spillway {

constexpr uint64_t kLoopBlock = 512;  // values per iteration of the loops

// Squares summed in 16 lanes, which are added in order at the end.
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

}  // namespace spillway
