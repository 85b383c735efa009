#include "engine/layers/masked_head.h"

#include "engine/layers/activation.h"
#include "engine/layers/language_head.h"
#include "engine/layers/transformer_part.h"

namespace spillway {
namespace {

using torch::Tensor;

class TransformUnit : public Unit, TransformerPart {
 public:
  using TransformerPart::TransformerPart;

  std::string name() const override { return "transform"; }

  std::vector<ParameterSpec> parameters() const override { return specs_; }

  Tensor Forward(const UnitContext& context, const Parameters& p, const Tensor& x) const override {
    const Tensor dense = Project(context, p, ParameterRole::kTransform, x);
    return Normalise(p, ParameterRole::kTransformNorm,
                     Activate(config_.transform_activation, dense));
  }
};

class MaskedLoss : public LanguageHead {
 public:
  using LanguageHead::LanguageHead;

  Tensor LossSum(const UnitContext& context, const Parameters& p, const Tensor& x,
                 const Tensor& labels) const override {
    const auto [rows, tokens] = Masked(x, labels);
    return LanguageHead::LossSum(context, p, rows, tokens);
  }

  Tensor Judge(const UnitContext& context, const Parameters& p, const Tensor& x,
               const Tensor& labels) const override {
    const auto [rows, tokens] = Masked(x, labels);
    const Tensor likeliest = Logits(context, p, rows).argmax(1);
    const Tensor counted = tokens.ne(kIgnoredLabel);
    const Tensor right = likeliest.eq(tokens).logical_and(counted);
    return torch::stack({right.sum(), counted.sum()}).to(torch::kFloat32).unsqueeze(0);
  }

  std::vector<QualityMeasure> Quality(absl::Span<const Judgement> judgements,
                                      double loss) const override {
    return CountedQuality(judgements, loss);
  }

 private:
  struct Rows {
    Tensor x, labels;
  };
  // Of a GPU that would be a wait for all that was put into its stream.
  static Rows Masked(const Tensor& x, const Tensor& labels) {
    if (!labels.device().is_cpu()) return {x, labels};
    const Tensor rows = labels.ne(kIgnoredLabel).nonzero().squeeze(1);
    return {x.index_select(0, rows), labels.index_select(0, rows)};
  }
};

}  // namespace

std::shared_ptr<const Unit> NewTransformUnit(std::shared_ptr<const TransformerConfig> config,
                                             const TransformerUnit& unit) {
  return std::make_shared<TransformUnit>(std::move(config), unit);
}

std::shared_ptr<const LossUnit> NewMaskedLoss(std::shared_ptr<const TransformerConfig> config,
                                              const TransformerUnit& unit,
                                              std::vector<BorrowedParameter> borrowed) {
  return std::make_shared<MaskedLoss>(std::move(config), unit, std::move(borrowed));
}

}  // namespace spillway
