#include "engine/layers/classifier.h"

#include "engine/layers/activation.h"
#include "engine/layers/transformer_part.h"
#include "engine/torch/text_batch.h"

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
      return Score(context, p, context.Dropout(x, classifier.dropout, kPooledSite));
    }
    if (classifier.of_last_token) {
      return Score(context, p, Normalise(p, ParameterRole::kFinalNorm, LastOf(context, x)));
    }
    const Tensor first =
        context.Dropout(x.select(1, 0).contiguous(), classifier.input_dropout, kInputSite);
    const Tensor pooled =
        Activate(classifier.activation, Project(context, p, ParameterRole::kPooler, first));
    return Score(context, p, context.Dropout(pooled, classifier.dropout, kPooledSite));
  }

 private:
  Tensor Score(const UnitContext& context, const Parameters& p, const Tensor& x) const {
    return context.Linear(x, Weight(p, ParameterRole::kClassifier),
                          Bias(p, ParameterRole::kClassifier));
  }

  // [samples, D], of each text's last token that is not the padding token; of a text of nothing
  // else the first one, as transformers has it.
  Tensor LastOf(const UnitContext& context, const Tensor& x) const {
    Tensor counts = context.field(kVisibleField);
    if (const auto padding = config_.classifier->padding_token) {
      counts = counts.logical_and(context.batch()->inputs.ne(*padding));
    }
    const Tensor positions = torch::arange(x.size(1), counts.options().dtype(torch::kInt64));
    const Tensor last = (positions * counts).argmax(1).view({-1, 1, 1});
    return x.gather(1, last.expand({-1, -1, x.size(2)})).squeeze(1);
  }
};

}  // namespace

std::shared_ptr<const Unit> NewClassifierUnit(std::shared_ptr<const TransformerConfig> config,
                                              const TransformerUnit& unit) {
  return std::make_shared<ClassifierUnit>(std::move(config), unit);
}

}  // namespace spillway
