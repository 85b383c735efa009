#include "engine/torch/float8_product.h"

#include <ATen/ops/_scaled_mm.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "engine/torch/product.h"
#include "engine/torch/projection.h"

namespace spillway {
namespace {

using torch::Tensor;

constexpr torch::ScalarType kE4M3 = torch::kFloat8_e4m3fn, kE5M2 = torch::kFloat8_e5m2;

// Elements rounded at once; on a GPU enough that it does not wait for launches.
constexpr int64_t kRounded = 1 << 20, kRoundedOnGpu = 8 << 20;

double LargestOf(torch::ScalarType format) { return format == kE4M3 ? 448 : 57344; }

// Pads rows and columns with zeros to multiples of 16. Row-major.
Tensor Padded(const Tensor& values) {
  const auto beyond = [](int64_t size) { return (16 - size % 16) % 16; };
  return torch::constant_pad_nd(values.view(torch::kUInt8),
                                {0, beyond(values.size(1)), 0, beyond(values.size(0))})
      .contiguous()
      .view(values.scalar_type());
}

struct Float8Arithmetic {
  static Float8Matrix Rounded(const Tensor& x) { return RoundToFloat8(x, kE4M3); }
  static Float8Matrix RoundedGradient(const Tensor& y) { return RoundToFloat8(y, kE5M2); }
  static Tensor Multiply(const Float8Matrix& a, const Float8Matrix& b, const Tensor& bias,
                         torch::ScalarType dtype) {
    return MultiplyFloat8(a, b, bias, dtype);
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
  // A tensor on the device: a GPU would multiply by the reciprocal of a number instead of dividing.
  const Tensor divisor = torch::full({}, largest, rounded.scale.options());
  // Positive, to avoid 0 / 0.
  rounded.scale = torch::maximum(high, low.neg())
                      .to(torch::kFloat32)
                      .div_(divisor)
                      .clamp_min_(std::numeric_limits<float>::min());
  const int64_t at_once = x.is_cuda() ? kRoundedOnGpu : kRounded;
  const int64_t rows = std::max<int64_t>(1, at_once / x.size(1));
  for (int64_t row = 0; row < x.size(0); row += rows) {
    const int64_t some = std::min(rows, x.size(0) - row);
    const Tensor parts = x.narrow(0, row, some).to(torch::kFloat32).div(rounded.scale);
    rounded.values.narrow(0, row, some).copy_(parts.clamp_(-largest, largest));
  }
  return rounded;
}

Tensor MultiplyFloat8(const Float8Matrix& a, const Float8Matrix& b, const Tensor& bias,
                      torch::ScalarType dtype) {
  // An expert may have no tokens; the operator does not support that.
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
  return Projection<Float8Arithmetic>::Of(x, weight, bias);
}

}  // namespace spillway
