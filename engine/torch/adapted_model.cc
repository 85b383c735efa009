#include "engine/torch/adapted_model.h"

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/torch/describe_model.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using torch::Tensor;
using Parameters = std::vector<Tensor>;

// Distinguishes the dropout sites of adapters from the unit's own.
constexpr int kFirstSite = 1 << 20;

struct Adaptation {
  std::vector<AdaptedWeight> weights;
  std::set<std::string> trained;
  LoraConfig config;
  bool freezes = false;
};

// The adapters of a unit or of the loss, and the parameters that its forward gets.
class Adapters {
 public:
  // `own`: the parameters of the unit without adapters.
  Adapters(const std::vector<ParameterSpec>& own, Adaptation adaptation)
      : own_(own.size()), adaptation_(std::move(adaptation)), specs_(own) {
    const LoraConfig& config = adaptation_.config;
    for (ParameterSpec& spec : specs_) {
      spec.frozen |= adaptation_.freezes && adaptation_.trained.count(spec.name) == 0;
    }
    for (const AdaptedWeight& weight : adaptation_.weights) {
      // The initial values of torch.nn.Linear and Conv2d, which PEFT uses for A.
      const double bound = 1 / std::sqrt(static_cast<double>(weight.in));
      const Init init = config.init == LoraConfig::InitA::kGaussian
                            ? Init::Normal(0, 1 / static_cast<double>(weight.rank))
                            : Init::Uniform(-bound, bound);
      specs_.push_back({weight.name_a(), weight.shape_a(), init});
      specs_.push_back({weight.name_b(), weight.shape_b(), Init::Constant(0)});
    }
  }

  const std::vector<ParameterSpec>& specs() const { return specs_; }

  // Selects the parameters of the unit without adapters from `all`: own, then borrowed.
  Parameters Inner(const Parameters& all) const {
    Parameters inner(all.begin(), all.begin() + static_cast<int64_t>(own_));
    inner.insert(inner.end(), all.begin() + static_cast<int64_t>(specs_.size()), all.end());
    return inner;
  }

  UnitContext In(const UnitContext& context, const Parameters& all) const {
    std::vector<LinearAdapter> adapters;
    for (size_t i = 0; i < adaptation_.weights.size(); ++i) {
      const AdaptedWeight& weight = adaptation_.weights[i];
      const Tensor& matrix = all[weight.parameter];
      adapters.push_back({weight.form == LinearWeight::kInOut ? matrix.t() : matrix,
                          all[own_ + 2 * i], all[own_ + 2 * i + 1], weight.scale,
                          adaptation_.config.dropout, kFirstSite + static_cast<int>(i)});
    }
    return context.WithAdapters(std::move(adapters));
  }

 private:
  const size_t own_;
  const Adaptation adaptation_;
  std::vector<ParameterSpec> specs_;
};

class AdaptedUnit : public Unit {
 public:
  AdaptedUnit(std::shared_ptr<const Unit> unit, Adaptation adaptation)
      : unit_(std::move(unit)), adapters_(unit_->parameters(), std::move(adaptation)) {}

  std::string name() const override { return unit_->name(); }
  std::string kind() const override { return absl::StrCat(unit_->kind(), ", adapted"); }
  std::vector<ParameterSpec> parameters() const override { return adapters_.specs(); }
  std::vector<BorrowedParameter> borrowed() const override { return unit_->borrowed(); }
  std::vector<BufferSpec> buffers() const override { return unit_->buffers(); }
  std::string input() const override { return unit_->input(); }
  std::vector<int> reads() const override { return unit_->reads(); }

  Tensor Forward(const UnitContext& context, const Parameters& p, const Tensor& x) const override {
    return unit_->Forward(adapters_.In(context, p), adapters_.Inner(p), x);
  }

  int64_t KeptPerPosition() const override { return unit_->KeptPerPosition(); }

  Tensor ForwardNext(const UnitContext& context, const Parameters& p, const Tensor& x,
                     const TextPosition& at) const override {
    return unit_->ForwardNext(adapters_.In(context, p), adapters_.Inner(p), x, at);
  }

 private:
  const std::shared_ptr<const Unit> unit_;
  const Adapters adapters_;
};

class AdaptedLoss : public LossUnit {
 public:
  AdaptedLoss(std::shared_ptr<const LossUnit> loss, Adaptation adaptation)
      : loss_(std::move(loss)), adapters_(loss_->parameters(), std::move(adaptation)) {}

  std::string name() const override { return loss_->name(); }
  std::vector<ParameterSpec> parameters() const override { return adapters_.specs(); }
  std::vector<BorrowedParameter> borrowed() const override { return loss_->borrowed(); }

  Tensor LossSum(const UnitContext& context, const Parameters& p, const Tensor& x,
                 const Tensor& labels) const override {
    return loss_->LossSum(adapters_.In(context, p), adapters_.Inner(p), x, labels);
  }

  Tensor Logits(const UnitContext& context, const Parameters& p, const Tensor& x) const override {
    return loss_->Logits(adapters_.In(context, p), adapters_.Inner(p), x);
  }

  Tensor Judge(const UnitContext& context, const Parameters& p, const Tensor& x,
               const Tensor& labels) const override {
    return loss_->Judge(adapters_.In(context, p), adapters_.Inner(p), x, labels);
  }

  std::vector<QualityMeasure> Quality(absl::Span<const Judgement> judgements,
                                      double loss) const override {
    return loss_->Quality(judgements, loss);
  }

  int64_t ChunkRows() const override { return loss_->ChunkRows(); }

 private:
  const std::shared_ptr<const LossUnit> loss_;
  const Adapters adapters_;
};

}  // namespace

absl::StatusOr<AdaptedModel> AdaptModel(const Model& model, const LoraConfig& config,
                                        bool training) {
  ASSIGN_OR_RETURN(const ModelDescription description, DescribeModel(model));
  AdaptedModel adapted;
  ASSIGN_OR_RETURN(adapted.layout, LayOutAdapters(description, config));
  const auto& of_loss = adapted.layout.units.back();
  if (training && config.dropout > 0 && !of_loss.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "LoRA's target ", of_loss.front().module,
        " is computed with the loss, row by row, where "
        "there is no dropout: leave it out (exclude_modules), or set the dropout to 0"));
  }
  const auto adaptation = [&](size_t unit) {
    return Adaptation{adapted.layout.units[unit], adapted.layout.trained, config, training};
  };
  for (size_t unit = 0; unit < model.units.size(); ++unit) {
    adapted.model.units.push_back(
        std::make_shared<AdaptedUnit>(model.units[unit], adaptation(unit)));
  }
  adapted.model.encoder_units = model.encoder_units;
  adapted.model.loss = std::make_shared<AdaptedLoss>(model.loss, adaptation(model.units.size()));
  return adapted;
}

}  // namespace spillway
