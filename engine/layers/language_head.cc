#include "engine/layers/language_head.h"

#include "engine/torch/cross_entropy.h"

namespace spillway {

using torch::Tensor;

int64_t LanguageHead::ChunkRows() const { return LossChunkRows(config_.vocabulary); }

// Own or borrowed, the matrix comes last.
Tensor LanguageHead::LossSum(const UnitContext& context, const Parameters& p, const Tensor& x,
                             const Tensor& labels) const {
  return CrossEntropySum(Final(context, p, x), p.back(), labels, context.fp32_products(),
                         config_.label_smoothing, Bias(p, ParameterRole::kLogitsBias));
}

Tensor LanguageHead::Logits(const UnitContext& context, const Parameters& p,
                            const Tensor& x) const {
  return context.Linear(Final(context, p, x), p.back(), Bias(p, ParameterRole::kLogitsBias));
}

Tensor LanguageHead::Final(const UnitContext& context, const Parameters& p, const Tensor& x) const {
  const bool here = config_.final_norm && !config_.norm_is_unit;
  const Tensor normal = here ? Normalise(p, ParameterRole::kFinalNorm, x) : x;
  const Tensor wide = Has(ParameterRole::kProjectOut)
                          ? Project(context, p, ParameterRole::kProjectOut, normal)
                          : normal;
  return config_.logits_scale == 1 ? wide : wide * config_.logits_scale;
}

}  // namespace spillway
