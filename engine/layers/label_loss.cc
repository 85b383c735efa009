#include "engine/layers/label_loss.h"

namespace spillway {
namespace {

using torch::Tensor;
using Parameters = std::vector<Tensor>;

class LabelLoss : public LossUnit {
 public:
  explicit LabelLoss(const ClassifierConfig& config)
      : problem_(config.problem.value_or(ClassifierProblem::kSingleLabel)) {}

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

  Tensor Logits(const UnitContext& context, const Parameters& p, const Tensor& x) const override {
    return x.to(torch::kFloat32);
  }

 private:
  const ClassifierProblem problem_;
};

}  // namespace

std::shared_ptr<const LossUnit> NewLabelLoss(const ClassifierConfig& config) {
  return std::make_shared<LabelLoss>(config);
}

}  // namespace spillway
