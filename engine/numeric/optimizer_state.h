// The state that an optimizer keeps per parameter, and its measurements before the update.
#pragma once

#include <vector>

#include "engine/numeric/optimizer_spec.h"
#include "engine/numeric/update_kind.h"
#include "swap/plan/state_layout.h"
#include "swap/plan/step_schedule.h"

namespace spillway {

// REQUIRES: masters are exact or the dtype is bf16 (CheckMasters).
WeightFormat WeightFormatOf(const OptimizerSpec& spec, DType dtype);

// The checkpointed planes of a run, weight first:
//   bf16: weight 2, residual 2    fp16: weight 2, master 4    fp32: weight 4
// (bf16 with 24-bit masters: residual 1; without masters: weight alone), then Adam's exp_avg 4 and
// exp_avg_sq 4, Lion's exp_avg 4, or SGD's momentum 4, if it has one (Adafactor: nothing). Moments
// in bf16 take 2 each, 8-bit ones 1, fp8 ones 1 and 2 for exp_avg_sq; coded moments are followed by
// 4 for each block of kMomentBlock parameters.
std::vector<PlaneSpec> StatePlanes(const OptimizerSpec& spec, DType dtype);

// The measurements of all tiles before any is updated. Adafactor: the gradients' squares by row and
// column, then the directions that follow from them; weights if their scale counts.
inline MeasurePasses MeasuresOf(const OptimizerSpec& spec) {
  if (spec.kind == OptimizerSpec::Kind::kLamb) return {.gradients = 0, .states = 1};
  if (spec.kind != OptimizerSpec::Kind::kAdafactor) return {};
  return spec.scale_parameter ? MeasurePasses{1, 1} : MeasurePasses{2, 0};
}
// Whether second moments are factored (engine/numeric/factored_moments.h).
inline bool FactorsMoments(const OptimizerSpec& spec) {
  return spec.kind == OptimizerSpec::Kind::kAdafactor;
}
inline bool MeasuresFirst(const OptimizerSpec& spec) { return MeasuresOf(spec).all() > 0; }

}  // namespace spillway
