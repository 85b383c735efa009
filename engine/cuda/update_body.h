// What one thread of the tile update does.
//
// Bound by memory: AdamW in bf16 moves 26 bytes a parameter for some fifteen operations. So
// neighbouring threads take neighbouring parameters, and each has all of its loads under way
// before it needs the first.
#pragma once

#include <cstdint>

#include "engine/numeric/number_formats.h"
#include "engine/numeric/parameter_update.h"

namespace spillway {

inline constexpr uint32_t kUpdateThreads = 256;  // of a block
inline constexpr uint32_t kUpdatePerThread = 4;
inline constexpr uint32_t kUpdatePerBlock = kUpdateThreads * kUpdatePerThread;

// Boundaries that one launch can take: arguments are limited to 4 KiB.
inline constexpr uint32_t kUpdateBoundaries = 64;

// Parameters [begin, end) of a tile. Weight decay begins or ends at each boundary.
struct UpdateArguments {
  UpdatePlanes planes = {};        // of the whole tile; in device memory
  UpdateConstants constants = {};  // where weight decays
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t first_decays = 0;                    // 1 when weight decays at `begin`
  uint32_t boundary_count = 0;                  // at most kUpdateBoundaries
  uint32_t boundaries[kUpdateBoundaries] = {};  // ascending, in (begin, end)
  uint32_t* largest_unstorable_bits = nullptr;  // raised to what UpdateThread returns
};

SPILLWAY_ALWAYS_INLINE bool DecaysAt(const UpdateArguments& arguments, uint32_t parameter) {
  uint32_t decays = arguments.first_decays;
  for (uint32_t i = 0; i < arguments.boundary_count; ++i) {
    decays ^= arguments.boundaries[i] <= parameter ? 1 : 0;
  }
  return decays != 0;
}

// The largest magnitude bits of its new masters that must not stand; 0 when all may.
template <DType kDType, UpdateRule kRule>
SPILLWAY_ALWAYS_INLINE uint32_t UpdateThread(const UpdateArguments& arguments, uint32_t block,
                                             uint32_t thread) {
  using Stored = typename Number<kDType>::Stored;
  constexpr bool kResidual = kDType == DType::kBFloat16;
  constexpr bool kMaster = kDType == DType::kFloat16;
  constexpr bool kMoment1 = kRule != UpdateRule::kSgd;
  constexpr bool kMoment2 = kRule == UpdateRule::kAdamW || kRule == UpdateRule::kAdam;
  Stored* const weights = static_cast<Stored*>(arguments.planes.weight);
  const Stored* const gradients = static_cast<const Stored*>(arguments.planes.gradient);
  const UpdatePlanes& planes = arguments.planes;

  Stored weight[kUpdatePerThread], gradient[kUpdatePerThread];
  uint16_t residual[kUpdatePerThread] = {};
  float master[kUpdatePerThread] = {};
  float moment1[kUpdatePerThread] = {}, moment2[kUpdatePerThread] = {};
  const uint32_t first = arguments.begin + block * kUpdatePerBlock + thread;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (uint32_t k = 0; k < kUpdatePerThread; ++k) {
    const uint32_t i = first + k * kUpdateThreads;
    if (i >= arguments.end) continue;
    weight[k] = weights[i];
    gradient[k] = gradients[i];
    if constexpr (kResidual) residual[k] = planes.residual[i];
    if constexpr (kMaster) master[k] = planes.master[i];
    if constexpr (kMoment1) moment1[k] = planes.moment1[i];
    if constexpr (kMoment2) moment2[k] = planes.moment2[i];
  }
  uint32_t largest = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (uint32_t k = 0; k < kUpdatePerThread; ++k) {
    const uint32_t i = first + k * kUpdateThreads;
    if (i >= arguments.end) continue;
    UpdateConstants constants = arguments.constants;
    if (!DecaysAt(arguments, i)) {
      constants.decay_factor = 1;
      constants.weight_decay = 0;
    }
    const uint32_t bits = UpdateParameter<kDType, kRule>(weight, residual, master, moment1, moment2,
                                                         gradient, k, constants);
    if (bits >= FirstUnstorableMagnitude(kDType) && bits > largest) largest = bits;
    weights[i] = weight[k];
    if constexpr (kResidual) planes.residual[i] = residual[k];
    if constexpr (kMaster) planes.master[i] = master[k];
    if constexpr (kMoment1) planes.moment1[i] = moment1[k];
    if constexpr (kMoment2) planes.moment2[i] = moment2[k];
  }
  return largest;
}

}  // namespace spillway
