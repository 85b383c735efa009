// The per-thread code of DropoutApply (engine/numeric/random.h) on a GPU: the eight elements of one
// Philox counter (engine/numeric/dropout_mask.h). Sixteen neighbouring threads process the counters
// of a block, so their accesses are contiguous.
#pragma once

#include <cstdint>

#include "engine/numeric/dropout_mask.h"
#include "engine/numeric/philox.h"

namespace spillway {

inline constexpr uint32_t kDropoutThreads = 256;

struct DropoutArguments {
  DropoutMaskKey key = {};
  float scale = 1;
  uint64_t begin = 0;  // in the mask
  uint64_t count = 0;
  const void* in = nullptr;  // at element `begin`
  void* out = nullptr;       // may be `in`
};

SPILLWAY_ALWAYS_INLINE uint64_t FirstCounter(const DropoutArguments& arguments) {
  return arguments.begin / kDropoutBlock * kDropoutBlockCounters;
}

inline uint64_t DropoutThreadBlocks(const DropoutArguments& arguments) {
  const uint64_t first = arguments.begin / kDropoutBlock;
  const uint64_t last = (arguments.begin + arguments.count + kDropoutBlock - 1) / kDropoutBlock;
  return ((last - first) * kDropoutBlockCounters + kDropoutThreads - 1) / kDropoutThreads;
}

template <DType kDType>
SPILLWAY_ALWAYS_INLINE void DropoutThread(const DropoutArguments& arguments, uint64_t thread_block,
                                          uint32_t thread) {
  using Stored = typename Number<kDType>::Stored;
  const uint64_t counter = FirstCounter(arguments) + thread_block * kDropoutThreads + thread;
  const DropoutMaskKey& key = arguments.key;
  uint32_t words[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                       key.unit, key.site};
  PhiloxRounds(words[0], words[1], words[2], words[3], key.key0, key.key1);
  const uint64_t element =
      counter / kDropoutBlockCounters * kDropoutBlock + counter % kDropoutBlockCounters;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (uint32_t h = 0; h < kDropoutBlock / kDropoutBlockCounters; ++h) {
    // Wraps around if the element precedes the range, and is then not below count.
    const uint64_t i = element + h * kDropoutBlockCounters - arguments.begin;
    if (i >= arguments.count) continue;
    const bool keep = ((words[h / 2] >> (16 * (h % 2))) & 0xffff) >= key.threshold;
    const Stored value = static_cast<const Stored*>(arguments.in)[i];
    static_cast<Stored*>(arguments.out)[i] =
        keep ? ScaleKept<kDType>(value, arguments.scale) : Stored{0};
  }
}

}  // namespace spillway
