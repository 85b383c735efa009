#include "engine/layers/rms_norm.h"

#include <torch/autograd.h>

namespace spillway {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// 1 / sqrt(mean(x^2) + epsilon) for fp32 x: [..., 1].
Tensor InverseRms(const Tensor& x, double epsilon) {
  return x.square().mean(-1, /*keepdim=*/true).add_(epsilon).rsqrt_();
}

class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        double epsilon) {
    context->save_for_backward({x, weight});
    context->saved_data["epsilon"] = epsilon;
    const Tensor wide = x.to(torch::kFloat32);
    return weight * (wide * InverseRms(wide, epsilon)).to(x.scalar_type());
  }

  // With r the inverse RMS, n = x r and g the gradient of n: r (g - n mean(g n)).
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor x = saved[0].to(torch::kFloat32);
    const Tensor inverse = InverseRms(x, context->saved_data["epsilon"].toDouble());
    const Tensor normal = x * inverse;
    const Tensor gradient = gradients[0].to(torch::kFloat32);
    Tensor x_gradient, weight_gradient;
    if (context->needs_input_grad(0)) {
      const Tensor wide = gradient * saved[1].to(torch::kFloat32);
      x_gradient =
          (wide - normal * (wide * normal).mean(-1, true)).mul_(inverse).to(saved[0].scalar_type());
    }
    if (context->needs_input_grad(1)) {
      weight_gradient = (gradient * normal).flatten(0, -2).sum(0).to(saved[1].scalar_type());
    }
    return {x_gradient, weight_gradient, Tensor()};
  }
};

}  // namespace

Tensor RmsNorm(const Tensor& x, const Tensor& weight, double epsilon) {
  return RmsNormFunction::apply(x, weight, epsilon);
}

}  // namespace spillway
