#include "engine/layers/classifier.h"

#include "engine/layers/activation.h"
#include "engine/layers/transformer_part.h"

namespace spillway {
namespace {

using torch::Tensor;

constexpr int kInputSite = 0;
constexpr int kPooledSite = 1;

class ClassifierUnit : public Unit, TransformerPart {
 public:
  using TransformerPart::TransformerPart;

  std::string name() const override { return "classifier"; }

  std::vector<ParameterSpec> parameters() const override { return specs_; }

  Tensor Forward(const UnitContext& context, const Parameters& p, const Tensor& x) const override {
    const ClassifierConfig& classifier = *config_.classifier;
    if (classifier.of_tokens) {
      return Project(context, p, ParameterRole::kClassifier,
                     context.Dropout(x, classifier.dropout, kPooledSite));
    }
    const Tensor first =
        context.Dropout(x.select(1, 0).contiguous(), classifier.input_dropout, kInputSite);
    const Tensor pooled =
        Activate(classifier.activation, Project(context, p, ParameterRole::kPooler, first));
    return Project(context, p, ParameterRole::kClassifier,
                   context.Dropout(pooled, classifier.dropout, kPooledSite));
  }
};

}  // namespace

std::shared_ptr<const Unit> NewClassifierUnit(std::shared_ptr<const TransformerConfig> config,
                                              const TransformerUnit& unit) {
  return std::make_shared<ClassifierUnit>(std::move(config), unit);
}

}  // namespace spillway
