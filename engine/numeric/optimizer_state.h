// What state an optimizer keeps of a parameter, and what it measures before it updates any.
#pragma once

#include <vector>

#include "engine/numeric/optimizer_spec.h"
#include "engine/numeric/update_kind.h"
#include "swap/plan/state_layout.h"
#include "swap/plan/step_schedule.h"

namespace spillway {

// REQUIRES, unless masters are exact: the dtype is bf16, or CheckMasters would refuse it.
WeightFormat WeightFormatOf(const OptimizerSpec& spec, DType dtype);

// The checkpointed planes of a run, weight first:
//   bf16: weight 2, residual 2    fp16: weight 2, master 4    fp32: weight 4
// (bf16 with masters of 24 bits: residual 1; without: weight alone) followed by Adam's exp_avg 4
// and exp_avg_sq 4, Lion's exp_avg 4, or SGD's momentum 4 where it has one (Adafactor: nothing).
// Moments in bf16 take 2 each; those of 8 bits 1, those of fp8 1 and exp_avg_sq 2, and behind each
// of them 4 a block of kMomentBlock parameters.
std::vector<PlaneSpec> StatePlanes(const OptimizerSpec& spec, DType dtype);

// What is to be measured of all tiles before any is updated. Adafactor: of gradients their squares
// by row and column, then what those make of them; of weights where their scale counts.
inline MeasurePasses MeasuresOf(const OptimizerSpec& spec) {
  if (spec.kind == OptimizerSpec::Kind::kLamb) return {.gradients = 0, .states = 1};
  if (spec.kind != OptimizerSpec::Kind::kAdafactor) return {};
  return spec.scale_parameter ? MeasurePasses{1, 1} : MeasurePasses{2, 0};
}
// Whether second moments are kept by row and column (engine/numeric/factored_moments.h).
inline bool FactorsMoments(const OptimizerSpec& spec) {
  return spec.kind == OptimizerSpec::Kind::kAdafactor;
}
inline bool MeasuresFirst(const OptimizerSpec& spec) { return MeasuresOf(spec).all() > 0; }

}  // namespace spillway
