// The per-thread code of CodeGradient and AccumulateCoded (engine/numeric/gradient_loops.h) on a
// GPU. Memory-bound.
#pragma once

#include <cstdint>

#include "engine/numeric/coded_moments.h"
#include "engine/numeric/number_formats.h"

namespace spillway {

// One thread per sum, one thread block per block of codes.
inline constexpr uint32_t kCodeThreads = kMomentBlock;

struct CodeArguments {
  const float* sums = nullptr;
  uint8_t* codes = nullptr;
  float* scales = nullptr;
  uint64_t count = 0;
};

// Between its two steps the thread block synchronises and reduces the largest magnitude.
class CodeThread {
 public:
  SPILLWAY_ALWAYS_INLINE CodeThread(const CodeArguments& arguments, uint64_t block, uint32_t thread)
      : arguments_(arguments), block_(block), i_(block * kMomentBlock + thread) {
    if (i_ < arguments.count) value_ = arguments.sums[i_];
  }
  SPILLWAY_ALWAYS_INLINE uint32_t Magnitude() const { return BitsOf(value_) & 0x7fffffff; }
  SPILLWAY_ALWAYS_INLINE void Store(uint32_t largest) const {
    if (i_ >= arguments_.count) return;
    if (i_ == block_ * kMomentBlock) arguments_.scales[block_] = FloatOfBits(largest);
    const float divisor = largest == 0 ? 1.0f : FloatOfBits(largest);
    arguments_.codes[i_] = CodedMoments<MomentFormat::kFloat8>().Code1Of(value_, divisor);
  }

 private:
  const CodeArguments& arguments_;
  const uint64_t block_, i_;
  float value_ = 0;
};

struct AccumulateCodedArguments {
  const uint8_t* codes = nullptr;
  const float* scales = nullptr;
  float* sums = nullptr;
  uint64_t count = 0;
};

template <bool kFirst>
SPILLWAY_ALWAYS_INLINE void AccumulateCodedThread(const AccumulateCodedArguments& arguments,
                                                  uint64_t block, uint32_t thread) {
  const uint64_t i = block * kMomentBlock + thread;
  if (i >= arguments.count) return;
  const float value =
      CodedMoments<MomentFormat::kFloat8>().Multiple1(arguments.codes[i]) * arguments.scales[block];
  arguments.sums[i] = kFirst ? value : arguments.sums[i] + value;
}

}  // namespace spillway
