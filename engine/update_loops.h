// The loops over parameters behind OptimizerTiles: plain pointers in, no allocation,
// no errors. Vectorised for each SIMD target (simd_dispatch.h), same bits on all.
#pragma once

#include <cstdint>

#include "engine/dtype.h"

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
};

// The planes of `count` neighbouring parameters; unused ones are null. None overlap.
struct UpdatePlanes {
  void* weight;
  uint16_t* residual;  // bf16
  float* master;       // fp16
  float* moment1;      // exp_avg, or SGD's momentum
  float* moment2;      // exp_avg_sq
  const void* gradient;
  uint64_t count;
};

// Updates in place. Returns the largest magnitude bits (sign cleared) among the new
// fp32 masters: at least FirstUnstorableMagnitude(dtype) means that one must not stand.
uint32_t UpdateParameters(DType dtype, UpdateRule rule, const UpdatePlanes& planes,
                          const UpdateConstants& constants);

// The smallest magnitude bits of a master that is not finite or whose weight is not.
uint32_t FirstUnstorableMagnitude(DType dtype);

// Position of the first unstorable master, and its value; count when there is none.
uint64_t FindUnstorable(DType dtype, const UpdatePlanes& planes, float* master);

// Rounds `count` sums to `dtype` (`gradient` may be `sums`); returns the sum of squares
// of the rounded values over 16 lanes. It is finite when and only when all values are:
// the square of the largest float is 1e77, so the sum of any number of them fits.
double RoundGradient(DType dtype, const void* sums, void* gradient, uint64_t count);

}  // namespace spillway
