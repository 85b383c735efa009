#include "engine/layers/resnet.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/layers/activation.h"
#include "engine/layers/label_loss.h"

namespace spillway {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

constexpr double kNormEpsilon = 1e-5;
constexpr double kNormMomentum = 0.1;
constexpr int kParametersOfConvolution = 3;

// What units with convolutions have in common.
class ConvolutionUnit : public Unit {
 public:
  ConvolutionUnit(const ResNetConfig& config, ResNetUnit unit)
      : unit_(std::move(unit)),
        all_(unit_.AllConvolutions()),
        activation_(config.activation),
        parameters_(ParametersOf(config, unit_)),
        buffers_(BuffersOf(unit_)) {}

  std::string name() const override { return unit_.name; }
  // Strides are in no parameter's shape.
  std::string kind() const override {
    std::string kind = absl::StrCat("resnet ", static_cast<int>(unit_.kind));
    for (const ResNetConvolution& one : all_)
      absl::StrAppend(&kind, " ", one.side, "/", one.stride);
    return kind;
  }
  std::vector<ParameterSpec> parameters() const override { return parameters_; }
  std::vector<BufferSpec> buffers() const override { return buffers_; }

 protected:
  // x through the convolution of that number among all, and its norm.
  Tensor Convolve(const UnitContext& context, const Tensors& p, size_t number,
                  const Tensor& x) const {
    const ResNetConvolution& one = all_[number];
    const Tensor* const own = &p[number * kParametersOfConvolution];
    Tensor y = context.Convolve(x, own[0], one.stride, /*padding=*/one.side / 2);
    TORCH_CHECK(!context.training() || y.numel() > y.size(1), one.name,
                ": a batch norm of one number a channel has no variance; give a larger micro-batch "
                "or larger pictures");
    const Tensor* const state = &context.buffers()[number * kBuffersOfNorm];
    y = torch::batch_norm(y, own[1].to(torch::kFloat32), own[2].to(torch::kFloat32), state[0],
                          state[1], context.training(), kNormMomentum, kNormEpsilon,
                          /*cudnn_enabled=*/false);
    if (context.training()) {
      const torch::NoGradGuard no_grad;
      Tensor(state[2]).add_(1);
    }
    return y;
  }
  Tensor Activated(const Tensor& x) const { return Activate(activation_, x); }

  const ResNetUnit unit_;

 private:
  const std::vector<ResNetConvolution> all_;
  const Activation activation_;
  const std::vector<ParameterSpec> parameters_;
  const std::vector<BufferSpec> buffers_;
};

class EmbedderUnit : public ConvolutionUnit {
 public:
  using ConvolutionUnit::ConvolutionUnit;

  Tensor Forward(const UnitContext& context, const Tensors& p, const Tensor& x) const override {
    return torch::max_pool2d(Activated(Convolve(context, p, 0, x)), /*kernel_size=*/3,
                             /*stride=*/2, /*padding=*/1);
  }
};

class ResidualUnit : public ConvolutionUnit {
 public:
  using ConvolutionUnit::ConvolutionUnit;

  Tensor Forward(const UnitContext& context, const Tensors& p, const Tensor& x) const override {
    const size_t count = unit_.convolutions.size();
    Tensor y = x;
    for (size_t i = 0; i < count; ++i) {
      y = Convolve(context, p, i, y);
      if (i + 1 < count) y = torch::relu(y);
    }
    return Activated(y + (unit_.shortcut ? Convolve(context, p, count, x) : x));
  }
};

class PictureScores : public Unit {
 public:
  PictureScores(const ResNetConfig& config, const ResNetUnit& unit)
      : name_(unit.name), parameters_(ParametersOf(config, unit)) {}

  std::string name() const override { return name_; }
  std::vector<ParameterSpec> parameters() const override { return parameters_; }

  Tensor Forward(const UnitContext& context, const Tensors& p, const Tensor& x) const override {
    return context.Linear(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1), p[0], p[1]);
  }

 private:
  const std::string name_;
  const std::vector<ParameterSpec> parameters_;
};

}  // namespace

absl::StatusOr<Model> BuildResNet(const ResNetConfig& config) {
  if (config.hidden.empty() || config.hidden.size() != config.depths.size() ||
      config.classifier.labels.empty()) {
    return absl::InvalidArgumentError(
        "a residual network needs labels, and as many depths as hidden sizes, at least one");
  }
  Model model;
  for (const ResNetUnit& unit : UnitsOf(config)) {
    switch (unit.kind) {
      case ResNetUnitKind::kEmbedder:
        model.units.push_back(std::make_shared<EmbedderUnit>(config, unit));
        break;
      case ResNetUnitKind::kLayer:
        model.units.push_back(std::make_shared<ResidualUnit>(config, unit));
        break;
      case ResNetUnitKind::kClassifier:
        model.units.push_back(std::make_shared<PictureScores>(config, unit));
        break;
      case ResNetUnitKind::kLoss:
        model.loss = NewLabelLoss(config.classifier);
        break;
    }
  }
  return model;
}

}  // namespace spillway
