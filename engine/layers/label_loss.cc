#include "engine/layers/label_loss.h"

namespace spillway {
namespace {

// All scores of a micro-batch's tokens at once: they are few, and samples are not split.
constexpr int64_t kAllRows = int64_t{1} << 40;

using torch::Tensor;
using Parameters = std::vector<Tensor>;

class LabelLoss : public LossUnit {
 public:
  explicit LabelLoss(const ClassifierConfig& config)
      : problem_(config.problem.value_or(ClassifierProblem::kSingleLabel)),
        of_tokens_(config.of_tokens),
        labels_(config.labels) {}

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
    if (of_tokens_) return JudgeTokens(context, x, labels);
    Tensor predicted = x.to(torch::kFloat32);
    if (problem_ == ClassifierProblem::kSingleLabel) {
      predicted = predicted.argmax(1).to(torch::kFloat32);
    } else if (problem_ == ClassifierProblem::kMultiLabel) {
      predicted = predicted.flatten().gt(0).to(torch::kFloat32);
    }
    return torch::stack({predicted.flatten(), labels.to(torch::kFloat32)}, 1);
  }

  std::vector<QualityMeasure> Quality(absl::Span<const Judgement> judgements,
                                      double loss) const override {
    if (of_tokens_) return TokenQuality(judgements, labels_);
    const auto count = static_cast<int64_t>(labels_.size());
    switch (problem_) {
      case ClassifierProblem::kSingleLabel:
        return SingleLabelQuality(judgements, count);
      case ClassifierProblem::kMultiLabel:
        return MultiLabelQuality(judgements, count);
      case ClassifierProblem::kRegression:
        return RegressionQuality(judgements);
    }
    TORCH_CHECK(false, "unknown problem");
  }

  Tensor Logits(const UnitContext& context, const Parameters& p, const Tensor& x) const override {
    return x.to(torch::kFloat32);
  }

  int64_t ChunkRows() const override { return of_tokens_ ? kAllRows : LossUnit::ChunkRows(); }

 private:
  static Tensor JudgeTokens(const UnitContext& context, const Tensor& x, const Tensor& labels) {
    const auto samples = static_cast<int64_t>(context.samples().size());
    const Tensor rows = torch::stack({x.argmax(1), labels}, 1).to(torch::kCPU, torch::kFloat32);
    const Tensor end = torch::full({1, 2}, kBetweenTexts, torch::kFloat32);
    std::vector<Tensor> judged;
    for (const Tensor& sample : rows.chunk(samples)) {
      judged.push_back(sample.index({sample.select(1, 1).ne(kIgnoredLabel)}));
      judged.push_back(end);
    }
    return torch::cat(judged);
  }

  const ClassifierProblem problem_;
  const bool of_tokens_;
  const std::vector<std::string> labels_;
};

}  // namespace

std::shared_ptr<const LossUnit> NewLabelLoss(const ClassifierConfig& config) {
  return std::make_shared<LabelLoss>(config);
}

}  // namespace spillway
