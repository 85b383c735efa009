// x @ weight + bias of a layer, and its gradients, with products by an Arithmetic:
//   Operand Rounded(x): an input or a weight in the form that is multiplied; it has t()
//   Operand RoundedGradient(y): the same for a gradient of the output
//   Multiply(a, b, bias, dtype): a @ b + bias [n] (undefined: none) in a new matrix of dtype
#pragma once

#include <torch/autograd.h>
#include <torch/types.h>

#include <optional>

namespace spillway {

// Keeps x and weight for the backward.
template <typename Arithmetic>
class Projection : public torch::autograd::Function<Projection<Arithmetic>> {
 public:
  using Tensor = torch::Tensor;

  // x [n, in], weight [in, out] of any strides, bias [out] (undefined: none) -> [n, out]
  static Tensor Of(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    // LibTorch's functions take an undefined tensor as absent only in an empty optional.
    return Projection::apply(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
  }

  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const Tensor& weight, const std::optional<Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.has_value();
    return Arithmetic::Multiply(Arithmetic::Rounded(x), Arithmetic::Rounded(weight),
                                bias.value_or(Tensor()), x.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const auto y = Arithmetic::RoundedGradient(gradients[0]);
    const auto multiply = [&](const auto& a, const auto& b) {
      return Arithmetic::Multiply(a, b, Tensor(), x.scalar_type());
    };
    Tensor of_x, of_weight, of_bias;
    if (context->needs_input_grad(0)) of_x = multiply(y, Arithmetic::Rounded(weight).t());
    if (context->needs_input_grad(1)) {  // in the layout of the weight
      const auto in = Arithmetic::Rounded(x);
      of_weight = weight.stride(0) == 1 ? multiply(y.t(), in).t() : multiply(in.t(), y);
    }
    const bool has_bias = context->saved_data["bias"].toBool();
    if (has_bias && context->needs_input_grad(2)) of_bias = gradients[0].sum(0);
    return {of_x, of_weight, of_bias};
  }
};

}  // namespace spillway
