#include "engine/layers/span_head.h"

#include <limits>
#include <utility>

#include "engine/layers/transformer_part.h"
#include "engine/torch/text_batch.h"

namespace spillway {
namespace {

using torch::Tensor;

constexpr int kScoredSite = 0;

class SpanUnit : public Unit, TransformerPart {
 public:
  using TransformerPart::TransformerPart;

  std::string name() const override { return "spans"; }

  std::vector<ParameterSpec> parameters() const override { return specs_; }

  Tensor Forward(const UnitContext& context, const std::vector<Tensor>& p,
                 const Tensor& x) const override {
    const Tensor scored = context.Dropout(x, config_.span_dropout, kScoredSite);
    return Project(context, p, ParameterRole::kClassifier, scored).transpose(1, 2).contiguous();
  }
};

class SpanLoss : public LossUnit {
 public:
  explicit SpanLoss(MeasureSpans measure) : measure_(std::move(measure)) {}

  std::string name() const override { return "loss"; }

  std::vector<ParameterSpec> parameters() const override { return {}; }

  Tensor LossSum(const UnitContext& context, const std::vector<Tensor>& p, const Tensor& x,
                 const Tensor& labels) const override {
    return torch::cross_entropy_loss(x.to(torch::kFloat32), labels, {}, torch::Reduction::Sum,
                                     kIgnoredLabel);
  }

  Tensor Judge(const UnitContext& context, const std::vector<Tensor>& p, const Tensor& x,
               const Tensor& labels) const override {
    if (!measure_) return {};
    const Tensor scores = x.to(torch::kFloat32).view({-1, 2, x.size(1)}).transpose(1, 2);
    return scores.index({context.field(kVisibleField)});
  }

  std::vector<QualityMeasure> Quality(absl::Span<const Judgement> judgements,
                                      double loss) const override {
    if (measure_) return measure_(judgements);
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    return {{"exact_match", kUnknown}, {"f1", kUnknown}};
  }

  Tensor Logits(const UnitContext& context, const std::vector<Tensor>& p,
                const Tensor& x) const override {
    return x.to(torch::kFloat32);
  }

  // Samples stay whole: all of a micro-batch at once.
  int64_t ChunkRows() const override { return int64_t{1} << 40; }

 private:
  const MeasureSpans measure_;
};

}  // namespace

std::shared_ptr<const Unit> NewSpanUnit(std::shared_ptr<const TransformerConfig> config,
                                        const TransformerUnit& unit) {
  return std::make_shared<SpanUnit>(std::move(config), unit);
}

std::shared_ptr<const LossUnit> NewSpanLoss(MeasureSpans measure) {
  return std::make_shared<SpanLoss>(std::move(measure));
}

}  // namespace spillway
