#include "engine/numeric/dropout_mask.h"

#include <cmath>
#include <cstring>

#include "engine/numeric/philox.h"
#include "engine/numeric/random.h"
#include "engine/numeric/simd_dispatch.h"
#include "engine/numeric/update_kind.h"
#include "io/base/check.h"

namespace spillway {
namespace {

constexpr uint64_t kDropoutDomain = 0x44726f706f750003;  // "Dropou"
constexpr uint64_t kCounters = kDropoutBlockCounters;
constexpr uint64_t kBlock = kDropoutBlock;
constexpr uint64_t kChunkBlocks = 8;
constexpr uint64_t kChunk = kBlock * kChunkBlocks;  // elements decided at a time: 2 KiB

// keep[e] = all ones or zero for the elements of blocks [first_block, + kChunkBlocks).
SPILLWAY_ALWAYS_INLINE void DecideChunk(const DropoutMaskKey& key, uint64_t first_block,
                                        uint16_t* __restrict keep) {
  for (uint64_t block = 0; block < kChunkBlocks; ++block) {
    const uint64_t first_counter = (first_block + block) * kCounters;
    const uint32_t low = static_cast<uint32_t>(first_counter);
    const uint32_t high = static_cast<uint32_t>(first_counter >> 32);
    uint32_t words[4][kCounters];
    for (uint32_t j = 0; j < kCounters; ++j) {
      uint32_t c0 = low + j, c1 = high, c2 = key.unit, c3 = key.site;
      PhiloxRounds(c0, c1, c2, c3, key.key0, key.key1);
      words[0][j] = c0;
      words[1][j] = c1;
      words[2][j] = c2;
      words[3][j] = c3;
    }
    for (int word = 0; word < 4; ++word) {
      uint16_t* to = keep + block * kBlock + word * 2 * kCounters;
      for (uint32_t j = 0; j < kCounters; ++j) {
        to[j] = (words[word][j] & 0xffff) >= key.threshold ? 0xffff : 0;
        to[kCounters + j] = (words[word][j] >> 16) >= key.threshold ? 0xffff : 0;
      }
    }
  }
}

template <DType kDType>
struct ApplyLoop {
  using Stored = typename Number<kDType>::Stored;

  static SPILLWAY_ALWAYS_INLINE void Run(DropoutMaskKey key, uint64_t begin, uint64_t count,
                                         const Stored* in, Stored* out, float scale) {
    alignas(64) uint16_t keep[kChunk];
    for (uint64_t done = 0; done < count;) {
      const uint64_t skip = (begin + done) % kBlock;
      const uint64_t here = count - done < kChunk - skip ? count - done : kChunk - skip;
      DecideChunk(key, (begin + done) / kBlock, keep);
      const uint16_t* const kept = keep + skip;
      const Stored* const from = in + done;
      Stored* const to = out + done;
#pragma GCC ivdep
      for (uint64_t i = 0; i < here; ++i) {
        const Stored scaled = ScaleKept<kDType>(from[i], scale);
        if constexpr (kDType == DType::kFloat32) {
          to[i] = kept[i] != 0 ? scaled : 0.0f;
        } else {
          to[i] = scaled & kept[i];
        }
      }
      done += here;
    }
  }
};

}  // namespace

DropoutMaskKey DropoutMaskKeyOf(const DropoutKey& key, double p) {
  SPILLWAY_CHECK(p >= 0 && p < 1);
  const uint64_t seed = key.seed ^ kDropoutDomain;
  const PhiloxCounter derived =
      Philox4x32({static_cast<uint32_t>(key.sample), static_cast<uint32_t>(key.sample >> 32),
                  static_cast<uint32_t>(key.step), static_cast<uint32_t>(key.step >> 32)},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return {derived[0], derived[1], key.unit, key.site,
          static_cast<uint32_t>(std::lround(p * 65536))};
}

float DropoutScale(double p) { return static_cast<float>(1 / (1 - p)); }

void DropoutApply(const DropoutKey& key, double p, uint64_t begin, uint64_t count, DType dtype,
                  const void* in, void* out) {
  const ScopedExactFloatMode mode;
  const DropoutMaskKey mask = DropoutMaskKeyOf(key, p);
  ForDType(dtype, [&](auto type) {
    using Loop = ApplyLoop<decltype(type)::kValue>;
    RunOnBestSimdTarget<Loop>(mask, begin, count, static_cast<const typename Loop::Stored*>(in),
                              static_cast<typename Loop::Stored*>(out), DropoutScale(p));
  });
}

}  // namespace spillway
