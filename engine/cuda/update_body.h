// The per-thread code of the tile update.
//
// Memory-bound: AdamW in bf16 moves 26 bytes a parameter for some fifteen operations. So
// neighbouring threads take neighbouring parameters, and each issues all of its loads before it
// needs the first.
#pragma once

#include <cstdint>
#include <type_traits>

#include "engine/numeric/coded_moments.h"
#include "engine/numeric/moment_code.h"
#include "engine/numeric/number_formats.h"
#include "engine/numeric/parameter_update.h"

namespace spillway {

inline constexpr uint32_t kUpdateThreads = kMomentBlock;  // of a thread block
inline constexpr uint32_t kUpdatePerThread = 4;
inline constexpr uint32_t kUpdatePerBlock = kUpdateThreads * kUpdatePerThread;

// Limit of boundaries in one launch: as many as a block of coded moments may have, and far below
// the 4 KiB limit for kernel arguments.
inline constexpr uint32_t kUpdateBoundaries = 256;

// Parameters [begin, end) of a tile. Weight decay starts or stops at each boundary.
struct UpdateArguments {
  UpdatePlanes planes = {};        // of the whole tile; in device memory
  UpdateConstants constants = {};  // for parameters with weight decay
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t first_decays = 0;                    // 1 if the first parameter has weight decay
  uint32_t boundary_count = 0;                  // at most kUpdateBoundaries
  uint32_t boundaries[kUpdateBoundaries] = {};  // ascending, in (begin, end)
  // Updated with the maximum of UpdateThread::Update's results.
  uint32_t* largest_unstorable_bits = nullptr;
};

SPILLWAY_ALWAYS_INLINE bool DecaysAt(const UpdateArguments& arguments, uint32_t parameter) {
  uint32_t decays = arguments.first_decays;
  for (uint32_t i = 0; i < arguments.boundary_count; ++i) {
    decays ^= arguments.boundaries[i] <= parameter ? 1 : 0;
  }
  return decays != 0;
}

// One thread's parameters. Coded moments have a scale per kMomentBlock parameters, which one round
// (one k) of a thread block covers, so they take two phases with a maximum over the thread block
// between them. REQUIRES for coded moments: `begin` starts such a block.
template <WeightFormat kFormat, UpdateRule kRule, MomentFormat kMoments>
class UpdateThread {
 public:
  using Coded = CodedMoments<kMoments>;

  SPILLWAY_ALWAYS_INLINE UpdateThread(const UpdateArguments& arguments, uint32_t block,
                                      uint32_t thread)
      : arguments_(arguments), first_(arguments.begin + block * kUpdatePerBlock + thread) {}

  // Returns the largest magnitude bits of its new masters that are not storable; 0 if all are.
  SPILLWAY_ALWAYS_INLINE uint32_t Update(const Coded& coded) {
    const UpdatePlanes& planes = arguments_.planes;
    Stored* const weights = static_cast<Stored*>(planes.weight);
    const Stored* const gradients = static_cast<const Stored*>(planes.gradient);
    Moment* const moments1 = static_cast<Moment*>(planes.moment1);
    Moment* const moments2 = static_cast<Moment*>(planes.moment2);
    Stored weight[kUpdatePerThread], gradient[kUpdatePerThread];
    Residual* const residuals = static_cast<Residual*>(planes.residual);
    Residual residual[kUpdatePerThread] = {};
    float master[kUpdatePerThread] = {};
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (uint32_t k = 0; k < kUpdatePerThread; ++k) {
      const uint32_t i = At(k);
      if constexpr (kCoded) LoadCoded(k, coded);
      if (i >= arguments_.end) continue;
      weight[k] = weights[i];
      gradient[k] = gradients[i];
      if constexpr (kResidual) residual[k] = residuals[i];
      if constexpr (kMaster) master[k] = planes.master[i];
      if constexpr (kMoment1 && !kCoded) moment1_[k] = moments1[i];
      if constexpr (kMoment2 && !kCoded) moment2_[k] = moments2[i];
    }
    uint32_t largest = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (uint32_t k = 0; k < kUpdatePerThread; ++k) {
      const uint32_t i = At(k);
      if (i >= arguments_.end) continue;
      UpdateConstants constants = arguments_.constants;
      if (!DecaysAt(arguments_, i)) {
        constants.decay_factor = 1;
        constants.weight_decay = 0;
      }
      const uint32_t bits =
          UpdateParameter<kFormat, kRule>(weight, residual, master, moment1_, moment2_, gradient, k,
                                          planes.first_word + i, constants);
      if (bits >= FirstUnstorableMagnitude(kFormat) && bits > largest) largest = bits;
      weights[i] = weight[k];
      if constexpr (kResidual) residuals[i] = residual[k];
      if constexpr (kMaster) planes.master[i] = master[k];
      if constexpr (kMoment1 && !kCoded) moments1[i] = moment1_[k];
      if constexpr (kMoment2 && !kCoded) moments2[i] = moment2_[k];
    }
    return largest;
  }

  // The magnitude bits of moment maximum % 2 (first, second) of round maximum / 2.
  SPILLWAY_ALWAYS_INLINE uint32_t Magnitude(uint32_t maximum) const {
    const uint32_t k = maximum / 2;
    return BitsOf(maximum % 2 == 0 ? moment1_[k] : moment2_[k]) & 0x7fffffff;
  }

  // Stores the thread's codes; the first thread stores the scales, which are the maxima.
  SPILLWAY_ALWAYS_INLINE void Store(const Coded& coded,
                                    const uint32_t (&maxima)[2 * kUpdatePerThread]) const {
    const UpdatePlanes& planes = arguments_.planes;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (uint32_t k = 0; k < kUpdatePerThread; ++k) {
      const uint32_t i = At(k);
      // Blocks are whole in memory, and one without a parameter to update stays unchanged.
      if (i - i % kMomentBlock >= arguments_.end) continue;
      if constexpr (kMoment1) {
        StoreOne(maxima[2 * k], i, static_cast<typename Coded::Code1*>(planes.moment1),
                 planes.scales1, [&](float scale) { return coded.Code1Of(moment1_[k], scale); });
      }
      if constexpr (kMoment2) {
        const uint32_t bits =
            MixedBits((planes.first_word + i) ^ arguments_.constants.rounding_key);
        StoreOne(maxima[2 * k + 1], i, static_cast<typename Coded::Code2*>(planes.moment2),
                 planes.scales2,
                 [&](float scale) { return coded.Code2Of(moment2_[k], scale, bits); });
      }
    }
  }

 private:
  using Stored = typename Number<DTypeOf(kFormat)>::Stored;
  using Residual = ResidualOf<kFormat>;
  using Moment = std::conditional_t<kMoments == MomentFormat::kBFloat16, uint16_t, float>;
  static constexpr bool kCoded = IsCoded(kMoments);
  static constexpr bool kResidual = HasResidual(kFormat);
  static constexpr bool kMaster = kFormat == WeightFormat::kFloat16;
  static constexpr bool kMoment1 = HasMoment1(kRule);
  static constexpr bool kMoment2 = HasMoment2(kRule);

  SPILLWAY_ALWAYS_INLINE uint32_t At(uint32_t k) const { return first_ + k * kUpdateThreads; }

  SPILLWAY_ALWAYS_INLINE void LoadCoded(uint32_t k, const Coded& coded) {
    const UpdatePlanes& planes = arguments_.planes;
    const uint32_t i = At(k), block = i / kMomentBlock;
    if (i - i % kMomentBlock >= arguments_.end) return;
    if constexpr (kMoment1) {
      const auto code = static_cast<const typename Coded::Code1*>(planes.moment1)[i];
      moment1_[k] = coded.Multiple1(code) * planes.scales1[block];
    }
    if constexpr (kMoment2) {
      const auto code = static_cast<const typename Coded::Code2*>(planes.moment2)[i];
      moment2_[k] = coded.Multiple2(code) * planes.scales2[block];
    }
  }

  template <typename Code, typename CodeOf>
  static SPILLWAY_ALWAYS_INLINE void StoreOne(uint32_t maximum, uint32_t i, Code* codes,
                                              float* scales, const CodeOf& code_of) {
    const float scale = FloatOfBits(maximum);
    codes[i] = code_of(maximum == 0 ? 1.0f : scale);
    if (i % kMomentBlock == 0) scales[i / kMomentBlock] = scale;
  }

  const UpdateArguments& arguments_;
  const uint32_t first_;
  Moment moment1_[kUpdatePerThread] = {}, moment2_[kUpdatePerThread] = {};
};

}  // namespace spillway
