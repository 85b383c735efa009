// The arithmetic of one parameter's update, shared by the CPU's loops (update_loops.h) and the
// GPU's kernels (engine/cuda/), so that both do the same operations in the same order. Both compile
// it without contraction, fast-math and flush-to-zero, so that every operation is correctly
// rounded. (The payload of a NaN depends on the processor; a NaN master ends the run.)
#pragma once

#include <cstdint>

#include "engine/numeric/number_formats.h"
#include "engine/numeric/split_master.h"
#include "engine/numeric/update_kind.h"

namespace spillway {

// The constants of a step's update, in fp32.
struct UpdateConstants {
  float gradient_scale;
  float decay_factor;  // AdamW, Lion, Adafactor: 1 - lr * weight_decay; 1 without decay
  float weight_decay;  // Adam, SGD, LAMB; 0 without decay
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float bias_correction2_sqrt;
  float eps;
  float
      negative_step_size;  // -lr / bias_correction1; SGD, Lion: -lr; LAMB, Adafactor: the tensor's
  float momentum;          // SGD; Lion: beta1
  float one_minus_dampening;  // 1 in the first step
  uint32_t rounding_key = 0;  // key of stochastic rounding, unique to the step
};

// The planes of `count` neighbouring parameters; unused ones are null. None overlap.
struct UpdatePlanes {
  void* weight;
  void* residual;  // HasResidual: ResidualOf the format
  float* master;   // WeightFormat::kFloat16
  void* moment1;   // exp_avg, or SGD's momentum
  void* moment2;   // exp_avg_sq
  const void* gradient;
  uint64_t count;
  float* scales1 = nullptr;  // coded moments: one per block of kMomentBlock parameters
  float* scales2 = nullptr;
  uint32_t first_word = 0;  // identifies the first parameter within the model
};

// The smallest magnitude bits (sign cleared) of a master (or weight, without masters) that is not
// finite or whose weight is not.
SPILLWAY_ALWAYS_INLINE constexpr uint32_t FirstUnstorableMagnitude(WeightFormat format) {
  return HasResidual(format)                ? kFirstUnsplittableMagnitude
         : format == WeightFormat::kFloat16 ? 0x477ff000  // 65520
                                            : 0x7f800000;
}

SPILLWAY_ALWAYS_INLINE float SquareRoot(float value) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(value);
#else
  return __builtin_sqrtf(value);
#endif
}

// Updates Adam's moments with a gradient.
SPILLWAY_ALWAYS_INLINE void AddToMoments(float g, float* moment1, float* moment2,
                                         const UpdateConstants& c) {
  *moment1 = *moment1 + c.one_minus_beta1 * (g - *moment1);
  *moment2 = *moment2 * c.beta2 + (c.one_minus_beta2 * g) * g;
}

// LAMB (You et al., 2020): the direction of a parameter's update, as in DeepSpeed's FusedLamb: the
// step size is bias-corrected, the moments are not. The tensor's ratio is computed in
// tensor_ratios.h.
SPILLWAY_ALWAYS_INLINE float LambDirection(float p, float g, float* moment1, float* moment2,
                                           const UpdateConstants& c) {
  AddToMoments(g, moment1, moment2, c);
  return *moment1 / (SquareRoot(*moment2) + c.eps) + c.weight_decay * p;
}

// One parameter: the formulas of torch.optim, and Lion's of its paper (Chen et al., "Symbolic
// Discovery of Optimization Algorithms", 2023); one rounding an operation.
template <UpdateRule kRule>
SPILLWAY_ALWAYS_INLINE float NewMaster(float p, float g, float* moment1, float* moment2,
                                       const UpdateConstants& c) {
  if constexpr (kRule == UpdateRule::kAdafactor) {  // g is the direction
    return p * c.decay_factor + c.negative_step_size * g;
  }
  g = g * c.gradient_scale;
  if constexpr (kRule == UpdateRule::kLamb) {
    return p + c.negative_step_size * LambDirection(p, g, moment1, moment2, c);
  }
  if constexpr (kRule == UpdateRule::kAdamW || kRule == UpdateRule::kLion) {
    p = p * c.decay_factor;
  } else {
    g = g + c.weight_decay * p;
  }
  if constexpr (kRule == UpdateRule::kAdamW || kRule == UpdateRule::kAdam) {
    AddToMoments(g, moment1, moment2, c);
    const float denominator = SquareRoot(*moment2) / c.bias_correction2_sqrt + c.eps;
    return p + c.negative_step_size * (*moment1 / denominator);
  } else if constexpr (kRule == UpdateRule::kLion) {
    const float mean = *moment1 * c.momentum + c.one_minus_beta1 * g;
    *moment1 = *moment1 * c.beta2 + c.one_minus_beta2 * g;
    const float sign = mean > 0 ? 1.0f : mean < 0 ? -1.0f : 0.0f;
    // The added value is NaN where a sign would hide that the gradient is not finite, else 0.
    return p + c.negative_step_size * sign + (mean - mean);
  } else if constexpr (kRule == UpdateRule::kSgd) {
    return p + c.negative_step_size * g;
  } else {
    const float buffer = *moment1 * c.momentum + c.one_minus_dampening * g;
    *moment1 = buffer;
    const float step = kRule == UpdateRule::kSgdNesterov ? g + c.momentum * buffer : buffer;
    return p + c.negative_step_size * step;
  }
}

// A moment, fp32 or bf16, as a number.
SPILLWAY_ALWAYS_INLINE float MomentOf(float stored) { return stored; }
SPILLWAY_ALWAYS_INLINE float MomentOf(uint16_t stored) { return FloatFromBFloat16(stored); }

// The master of parameter `i`, or its weight without masters.
template <WeightFormat kFormat, typename Stored>
SPILLWAY_ALWAYS_INLINE float MasterOf(const Stored* weight, const ResidualOf<kFormat>* residual,
                                      const float* master, uint64_t i) {
  if constexpr (HasResidual(kFormat)) {
    return Join(weight[i], residual[i]);
  } else if constexpr (kFormat == WeightFormat::kFloat16) {
    return master[i];
  } else {
    return Number<DTypeOf(kFormat)>::ToFloat(weight[i]);
  }
}

// Updates parameter `i` of the planes in place, ignoring planes that format and rule do not have;
// `word` is derived from UpdatePlanes::first_word. Returns the magnitude bits of its new master, or
// of its weight without masters.
//
// In bf16, second moments and weights without masters are rounded stochastically: their changes in
// a step are so small that rounding to nearest would drop them.
template <WeightFormat kFormat, UpdateRule kRule, typename Stored, typename Moment,
          typename Gradient>
SPILLWAY_ALWAYS_INLINE uint32_t UpdateParameter(Stored* weight, ResidualOf<kFormat>* residual,
                                                float* master, Moment* moment1, Moment* moment2,
                                                const Gradient* gradient, uint64_t i, uint32_t word,
                                                const UpdateConstants& constants) {
  using Weight = Number<DTypeOf(kFormat)>;
  constexpr bool kBFloat16Moments = sizeof(Moment) == sizeof(uint16_t);
  float p = MasterOf<kFormat>(weight, residual, master, i);
  float m = 0, v = 0;
  if constexpr (HasMoment1(kRule)) m = MomentOf(moment1[i]);
  if constexpr (HasMoment2(kRule)) v = MomentOf(moment2[i]);
  float g = 0;
  if constexpr (kRule == UpdateRule::kAdafactor) {
    g = gradient[i];
  } else {
    g = Weight::ToFloat(gradient[i]);
  }
  p = NewMaster<kRule>(p, g, &m, &v, constants);
  const uint32_t random_bits = MixedBits(word ^ constants.rounding_key);
  if constexpr (HasMoment1(kRule)) {
    if constexpr (kBFloat16Moments) {
      moment1[i] = BFloat16FromFloat(m);
    } else {
      moment1[i] = m;
    }
  }
  if constexpr (HasMoment2(kRule)) {
    if constexpr (kBFloat16Moments) {
      moment2[i] = DitheredBFloat16(v, random_bits);
    } else {
      moment2[i] = v;
    }
  }
  // A second draw: the weight's rounding is independent of the second moment's.
  const uint32_t weight_bits = MixedBits(random_bits + 0x9e3779b9);
  if constexpr (HasResidual(kFormat)) {
    if constexpr (kFormat == WeightFormat::kBFloat16Byte) p = DitheredMaster24(p, weight_bits);
    const auto split = Split<ResidualOf<kFormat>>(p);
    weight[i] = split.weight;
    residual[i] = split.residual;
  } else if constexpr (kFormat == WeightFormat::kFloat16) {
    master[i] = p;
    weight[i] = Float16FromFloat(p);
  } else if constexpr (kFormat == WeightFormat::kBFloat16Alone) {
    weight[i] = DitheredBFloat16(p, weight_bits);
    p = FloatFromBFloat16(weight[i]);
  } else {
    weight[i] = p;
  }
  return BitsOf(p) & 0x7fffffff;
}

}  // namespace spillway
