#include "engine/layers/label_loss.h"

namespace spillway {
namespace {

using torch::Tensor;
using Parameters = std::vector<Tensor>;

class LabelLoss : public LossUnit {
 public:
  explicit LabelLoss(const ClassifierConfig& config)
      : problem_(config.problem.value_or(ClassifierProblem::kSingleLabel)),
        labels_(static_cast<int64_t>(config.labels.size())) {}

  std::string name() const override { return "loss"; }

  std::vector<ParameterSpec> parameters() const override { return {}; }

  Tensor LossSum(const UnitContext& context, const Parameters& p, const Tensor& x,
                 const Tensor& labels) const override {
    const Tensor scores = x.to(torch::kFloat32);
    switch (problem_) {
      case ClassifierProblem::kSingleLabel:
        return torch::cross_entropy_loss(scores, labels, {}, torch::Reduction::Sum, kIgnoredLabel);
      case ClassifierProblem::kMultiLabel:
        return torch::binary_cross_entropy_with_logits(scores.flatten(), labels, {}, {},
                                                       torch::Reduction::Sum);
      case ClassifierProblem::kRegression:
        return torch::mse_loss(scores.flatten(), labels, torch::Reduction::Sum);
    }
    TORCH_CHECK(false, "unknown problem");
  }

  Tensor Judge(const UnitContext& context, const Parameters& p, const Tensor& x,
               const Tensor& labels) const override {
    Tensor predicted = x.to(torch::kFloat32);
    if (problem_ == ClassifierProblem::kSingleLabel) {
      predicted = predicted.argmax(1).to(torch::kFloat32);
    } else if (problem_ == ClassifierProblem::kMultiLabel) {
      predicted = predicted.flatten().gt(0).to(torch::kFloat32);
    }
    return torch::stack({predicted.flatten(), labels.to(torch::kFloat32)}, 1);
  }

  std::vector<QualityMeasure> Quality(absl::Span<const Judgement> judgements) const override {
    switch (problem_) {
      case ClassifierProblem::kSingleLabel:
        return SingleLabelQuality(judgements, labels_);
      case ClassifierProblem::kMultiLabel:
        return MultiLabelQuality(judgements, labels_);
      case ClassifierProblem::kRegression:
        return RegressionQuality(judgements);
    }
    TORCH_CHECK(false, "unknown problem");
  }

  Tensor Logits(const UnitContext& context, const Parameters& p, const Tensor& x) const override {
    return x.to(torch::kFloat32);
  }

 private:
  const ClassifierProblem problem_;
  const int64_t labels_;
};

}  // namespace

std::shared_ptr<const LossUnit> NewLabelLoss(const ClassifierConfig& config) {
  return std::make_shared<LabelLoss>(config);
}

}  // namespace spillway
