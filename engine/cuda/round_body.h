// The per-block code of RoundGradient (engine/numeric/gradient_loops.h) on a GPU; a block rounds
// one tile.
//
// The block takes 4096 sums at a time: it rounds them, writes the gradient, and leaves the rounded
// values in shared memory lane by lane. Then each of its 16 warps adds one lane's squares in order
// (sum_in_order.h) while the next sums are loaded. The chunks of a tile are sequential, so one tile
// is bound by the latency of a warp's steps. A launch takes any number of tiles, each on its own
// multiprocessor, and many tiles are memory-bound.
#pragma once

#include <cstdint>

#include "engine/cuda/sum_in_order.h"
#include "engine/numeric/number_formats.h"

namespace spillway {

inline constexpr int kRoundLanes = 16;  // one warp each
inline constexpr uint32_t kRoundThreads = kRoundLanes * kWarpThreads;
inline constexpr uint32_t kRoundPerThread = 8;
inline constexpr uint32_t kRoundChunk = kRoundThreads * kRoundPerThread;
static_assert(kRoundChunk == kRoundLanes * kSquaresPerWarp);
// Avoids bank conflicts of threads that write neighbouring lanes.
inline constexpr uint32_t kRoundRow = kWarpThreads * kSquaresStride + 2;

// Laid out as GradientPartial (swap/device/tile_compute.h).
struct RoundedPartial {
  double sum_of_squares;
  bool finite;
};

// Block b rounds `parameters` sums (the last block the rest of `total`).
struct RoundArguments {
  const float* sums = nullptr;  // block b's start at b * parameters
  char* gradient = nullptr;     // block b's starts at b * gradient_stride_bytes
  uint64_t gradient_stride_bytes = 0;
  RoundedPartial* partials = nullptr;
  uint64_t parameters = 0;
  uint64_t total = 0;
};

inline uint64_t RoundBlocks(const RoundArguments& arguments) {
  return (arguments.total + arguments.parameters - 1) / arguments.parameters;
}

struct RoundShared {
  float rows[kRoundLanes * kRoundRow];
  double lanes[kRoundLanes];
};

// Registers of a thread.
struct RoundThread {
  float values[kRoundPerThread];
};

// One block: Load, then for every chunk Store, Load of the next, Add; Finish at the end. The block
// synchronises between steps, except after Load.
template <DType kDType>
class RoundBlock {
 public:
  using Stored = typename Number<kDType>::Stored;

  SPILLWAY_ALWAYS_INLINE RoundBlock(const RoundArguments& arguments, uint64_t block)
      : sums_(arguments.sums + block * arguments.parameters),
        gradient_(reinterpret_cast<Stored*>(arguments.gradient +
                                            block * arguments.gradient_stride_bytes)),
        partial_(arguments.partials + block),
        count_(arguments.total - block * arguments.parameters) {
    if (count_ > arguments.parameters) count_ = arguments.parameters;
  }

  SPILLWAY_ALWAYS_INLINE uint64_t chunks() const {
    return (count_ + kRoundChunk - 1) / kRoundChunk;
  }

  SPILLWAY_ALWAYS_INLINE void Load(uint64_t chunk, uint32_t thread, RoundThread& registers) const {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (uint32_t k = 0; k < kRoundPerThread; ++k) {
      const uint64_t i = chunk * kRoundChunk + k * kRoundThreads + thread;
      registers.values[k] = i < count_ ? sums_[i] : 0;
    }
  }

  // The gradient may overlap the sums: the overwritten ones, of this chunk or earlier, have been
  // loaded.
  SPILLWAY_ALWAYS_INLINE void Store(uint64_t chunk, uint32_t thread, const RoundThread& registers,
                                    RoundShared& shared) const {
    // Element e of a chunk is number e / 16 of lane e % 16.
    float* const row = shared.rows + thread % kRoundLanes * kRoundRow;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (uint32_t k = 0; k < kRoundPerThread; ++k) {
      const uint32_t element = k * kRoundThreads + thread;
      const uint64_t i = chunk * kRoundChunk + element;
      const Stored rounded = Number<kDType>::FromFloat(registers.values[k]);
      if (i < count_) gradient_[i] = rounded;
      const uint32_t place = element / kRoundLanes;
      row[place / kSquaresPerThread * kSquaresStride + place % kSquaresPerThread] =
          Number<kDType>::ToFloat(rounded);
    }
  }

  template <typename Warp>
  SPILLWAY_ALWAYS_INLINE void Add(Warp warp, int lane, double& sum, RoundShared& shared) const {
    sum = AddSquaresInOrder(warp, shared.rows + lane * kRoundRow, sum);
    shared.lanes[lane] = sum;
  }

  // Called by one thread.
  SPILLWAY_ALWAYS_INLINE void Finish(const RoundShared& shared) const {
    double sum = 0;
    for (int lane = 0; lane < kRoundLanes; ++lane) {
      sum += shared.lanes[lane];
    }
    partial_->sum_of_squares = sum;
    partial_->finite = (BitsOfDouble(sum) >> 52 & 0x7ff) != 0x7ff;
  }

 private:
  const float* sums_;
  Stored* gradient_;
  RoundedPartial* partial_;
  uint64_t count_;
};

}  // namespace spillway
