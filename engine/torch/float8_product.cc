#include "engine/torch/float8_product.h"

#include <ATen/ops/_scaled_mm.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "engine/torch/product.h"

namespace spillway {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr torch::ScalarType kE4M3 = torch::kFloat8_e4m3fn, kE5M2 = torch::kFloat8_e5m2;

// Elements that are rounded at once.
constexpr int64_t kRounded = 1 << 20;

double LargestOf(torch::ScalarType format) { return format == kE4M3 ? 448 : 57344; }

// With zeros behind its rows and columns, so that there are whole 16s of both. Row by row.
Tensor Padded(const Tensor& values) {
  const auto beyond = [](int64_t size) { return (16 - size % 16) % 16; };
  return torch::constant_pad_nd(values.view(torch::kUInt8),
                                {0, beyond(values.size(1)), 0, beyond(values.size(0))})
      .contiguous()
      .view(values.scalar_type());
}

class Float8Projection : public torch::autograd::Function<Float8Projection> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.has_value();
    return MultiplyFloat8(RoundToFloat8(x, kE4M3), RoundToFloat8(weight, kE4M3),
                          bias.value_or(Tensor()), x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const Float8Matrix y = RoundToFloat8(gradients[0], kE5M2);
    Tensor of_x, of_weight, of_bias;
    if (context->needs_input_grad(0)) {
      of_x = MultiplyFloat8(y, RoundToFloat8(weight, kE4M3).t(), {}, x.scalar_type());
    }
    if (context->needs_input_grad(1)) {  // laid out as the weight is
      const Float8Matrix in = RoundToFloat8(x, kE4M3);
      of_weight = weight.stride(0) == 1 ? MultiplyFloat8(y.t(), in, {}, x.scalar_type()).t()
                                        : MultiplyFloat8(in.t(), y, {}, x.scalar_type());
    }
    const bool has_bias = context->saved_data["bias"].toBool();
    if (has_bias && context->needs_input_grad(2)) of_bias = gradients[0].sum(0);
    return {of_x, of_weight, of_bias};
  }
};

}  // namespace

Float8Matrix RoundToFloat8(const Tensor& x, torch::ScalarType format) {
  if (!x.is_contiguous() && x.t().is_contiguous()) return RoundToFloat8(x.t(), format).t();
  const double largest = LargestOf(format);
  Float8Matrix rounded = {torch::empty(x.sizes(), x.options().dtype(format)),
                          torch::ones({}, x.options().dtype(torch::kFloat32))};
  if (x.numel() == 0) return rounded;
  const auto [low, high] = torch::aminmax(x);
  // Never 0, of which 0 / 0 would come.
  rounded.scale = torch::maximum(high, low.neg())
                      .to(torch::kFloat32)
                      .div_(largest)
                      .clamp_min_(std::numeric_limits<float>::min());
  const int64_t rows = std::max<int64_t>(1, kRounded / x.size(1));
  for (int64_t row = 0; row < x.size(0); row += rows) {
    const int64_t some = std::min(rows, x.size(0) - row);
    const Tensor parts = x.narrow(0, row, some).to(torch::kFloat32).div(rounded.scale);
    rounded.values.narrow(0, row, some).copy_(parts.clamp(-largest, largest));
  }
  return rounded;
}

Tensor MultiplyFloat8(const Float8Matrix& a, const Float8Matrix& b, const Tensor& bias,
                      torch::ScalarType dtype) {
  // An expert may have no tokens, which the operator need not know.
  const bool any = a.values.numel() > 0 && b.values.numel() > 0;
  if (any && a.values.is_cuda() && dtype != torch::kFloat32) {
    return MultiplyFloat8Natively(a, b, bias, dtype);
  }
  const Tensor out =
      torch::empty({a.values.size(0), b.values.size(1)}, a.values.options().dtype(dtype));
  MultiplyInFp32(a.values, b.values, a.scale * b.scale, bias, out);
  return out;
}

Tensor MultiplyFloat8Natively(const Float8Matrix& a, const Float8Matrix& b, const Tensor& bias,
                              torch::ScalarType dtype) {
  const int64_t m = a.values.size(0), n = b.values.size(1);
  const Tensor left = Padded(a.values), right = Padded(b.values.t()).t();
  std::optional<Tensor> added;
  if (bias.defined()) added = torch::constant_pad_nd(bias, {0, right.size(1) - n});
  return at::_scaled_mm(left, right, a.scale, b.scale, added, std::nullopt, dtype)
      .narrow(0, 0, m)
      .narrow(1, 0, n)
      .contiguous();
}

Tensor ProjectInFloat8(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return Float8Projection::apply(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
}

}  // namespace spillway
