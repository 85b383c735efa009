// The arithmetic of one parameter's update: what the CPU's loops (update_loops.h) and the
// GPU's kernels (engine/cuda/) repeat. Written once, so that both do the same operations in
// the same order; compiled without contraction, fast-math and flush-to-zero on both sides, so
// that each is correctly rounded. (Which NaN comes of a NaN is the processor's affair. A
// master that is one ends the run.)
#pragma once

#include <cstdint>

#include "engine/numeric/number_formats.h"
#include "engine/numeric/split_master.h"

namespace spillway {

enum class UpdateRule : uint8_t { kAdamW, kAdam, kSgd, kSgdMomentum, kSgdNesterov };

// What a step's update multiplies and adds, in fp32.
struct UpdateConstants {
  float gradient_scale;
  float decay_factor;  // AdamW: 1 - lr * weight_decay, or 1 where nothing decays
  float weight_decay;  // Adam, SGD: or 0 where nothing decays
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float bias_correction2_sqrt;
  float eps;
  float negative_step_size;  // -lr / bias_correction1; SGD: -lr
  float momentum;
  float one_minus_dampening;  // 1 in the first step
  uint32_t rounding_key = 0;  // of second moments in codes: the same in the run's step alone
};

// The planes of `count` neighbouring parameters; unused ones are null. None overlap. Moments
// are numbers, or codes with scales (moment_code.h).
struct UpdatePlanes {
  void* weight;
  uint16_t* residual;  // bf16
  float* master;       // fp16
  float* moment1;      // exp_avg, or SGD's momentum
  float* moment2;      // exp_avg_sq
  const void* gradient;
  uint64_t count;
  uint8_t* codes1 = nullptr;
  uint8_t* codes2 = nullptr;
  float* scales1 = nullptr;  // one a block of kMomentBlock parameters
  float* scales2 = nullptr;
  uint32_t first_word = 0;  // of codes: what tells the first parameter from all others of a model
};

constexpr bool HasMoment1(UpdateRule rule) { return rule != UpdateRule::kSgd; }
constexpr bool HasMoment2(UpdateRule rule) {
  return rule == UpdateRule::kAdamW || rule == UpdateRule::kAdam;
}

// The smallest magnitude bits (sign cleared) of a master that is not finite or whose weight
// is not.
SPILLWAY_ALWAYS_INLINE constexpr uint32_t FirstUnstorableMagnitude(DType dtype) {
  return dtype == DType::kFloat32    ? 0x7f800000
         : dtype == DType::kBFloat16 ? kFirstUnsplittableMagnitude
                                     : 0x477ff000;  // 65520
}

SPILLWAY_ALWAYS_INLINE float SquareRoot(float value) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(value);
#else
  return __builtin_sqrtf(value);
#endif
}

// One parameter: the formulas of torch.optim, one rounding an operation.
template <UpdateRule kRule>
SPILLWAY_ALWAYS_INLINE float NewMaster(float p, float g, float* moment1, float* moment2, uint64_t i,
                                       const UpdateConstants& c) {
  g = g * c.gradient_scale;
  if constexpr (kRule == UpdateRule::kAdamW) {
    p = p * c.decay_factor;
  } else {
    g = g + c.weight_decay * p;
  }
  if constexpr (kRule == UpdateRule::kAdamW || kRule == UpdateRule::kAdam) {
    float m = moment1[i];
    float v = moment2[i];
    m = m + c.one_minus_beta1 * (g - m);
    v = v * c.beta2 + (c.one_minus_beta2 * g) * g;
    moment1[i] = m;
    moment2[i] = v;
    const float denominator = SquareRoot(v) / c.bias_correction2_sqrt + c.eps;
    return p + c.negative_step_size * (m / denominator);
  } else if constexpr (kRule == UpdateRule::kSgd) {
    return p + c.negative_step_size * g;
  } else {
    const float buffer = moment1[i] * c.momentum + c.one_minus_dampening * g;
    moment1[i] = buffer;
    const float step = kRule == UpdateRule::kSgdNesterov ? g + c.momentum * buffer : buffer;
    return p + c.negative_step_size * step;
  }
}

// Updates parameter `i` of the planes in place (those that dtype and rule don't have are not
// looked at). Returns the magnitude bits of its new master.
template <DType kDType, UpdateRule kRule, typename Stored>
SPILLWAY_ALWAYS_INLINE uint32_t UpdateParameter(Stored* weight, uint16_t* residual, float* master,
                                                float* moment1, float* moment2,
                                                const Stored* gradient, uint64_t i,
                                                const UpdateConstants& constants) {
  float p;
  if constexpr (kDType == DType::kBFloat16) {
    p = Join(weight[i], residual[i]);
  } else if constexpr (kDType == DType::kFloat16) {
    p = master[i];
  } else {
    p = weight[i];
  }
  p = NewMaster<kRule>(p, Number<kDType>::ToFloat(gradient[i]), moment1, moment2, i, constants);
  if constexpr (kDType == DType::kBFloat16) {
    const SplitMaster split = Split(p);
    weight[i] = split.weight;
    residual[i] = split.residual;
  } else if constexpr (kDType == DType::kFloat16) {
    master[i] = p;
    weight[i] = Float16FromFloat(p);
  } else {
    weight[i] = p;
  }
  return BitsOf(p) & 0x7fffffff;
}

}  // namespace spillway
