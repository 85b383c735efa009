// Products from operands in 8 bits, against doubles of what LibTorch rounds to 8 bits.
#include "engine/torch/float8_product.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <limits>
#include <vector>

#include "engine/torch/model.h"
#include "tests/torch/deviation.h"

namespace spillway {
namespace {

using torch::Tensor;

constexpr torch::ScalarType kE4M3 = torch::kFloat8_e4m3fn, kE5M2 = torch::kFloat8_e5m2;
constexpr torch::ScalarType kHalf = torch::kBFloat16, kDouble = torch::kFloat64;

Tensor Exact(const Float8Matrix& matrix) {
  return matrix.values.to(kDouble) * matrix.scale.to(kDouble);
}

// Of many rows, so that they are rounded in several parts.
TEST(Float8Product, EveryElementIsTheNearestMultipleOfTheScale) {
  torch::manual_seed(1);
  for (const auto& [format, largest, step] :
       {std::tuple{kE4M3, 448.0, 1 / 16.0}, {kE5M2, 57344.0, 1 / 8.0}}) {
    for (const torch::ScalarType dtype : {torch::kFloat32, kHalf, torch::kFloat16}) {
      for (const bool transposed : {false, true}) {
        Tensor x = (torch::randn({1 << 11, 1030}) * 0.03).to(dtype);
        if (transposed) x = x.t();
        const Float8Matrix found = RoundToFloat8(x, format);
        EXPECT_EQ(found.values.sizes(), x.sizes());
        EXPECT_EQ(found.values.strides(), x.strides());
        EXPECT_EQ(found.scale.item<float>(),
                  x.abs().max().to(torch::kFloat32).item<float>() / static_cast<float>(largest));
        EXPECT_EQ(found.values.to(torch::kFloat32).abs().max().item<double>(), largest);
        const Tensor error = (Exact(found) - x.to(kDouble)).abs();
        // Half a step of a number, or of the smallest normal ones.
        const double least = (format == kE4M3 ? 0x1p-6 : 0x1p-14) * found.scale.item<double>();
        EXPECT_LE((error / x.to(kDouble).abs().clamp_min(least)).max().item<double>(),
                  1.0001 * step);
        EXPECT_TRUE(
            found.values.view(torch::kUInt8)
                .equal((x.to(torch::kFloat32) / found.scale).to(format).view(torch::kUInt8)));
      }
    }
  }
}

TEST(Float8Product, OfZerosNothingAndTheTiniestProductsAreFinite) {
  for (const Tensor& x : {torch::zeros({3, 16}), torch::empty({0, 16}),
                          torch::full({3, 16}, std::numeric_limits<float>::denorm_min())}) {
    const Tensor y =
        ProjectInFloat8(x.to(torch::kFloat32), torch::randn({16, 4}), torch::ones({4}));
    EXPECT_TRUE(y.eq(1).all().item<bool>()) << y;
    EXPECT_EQ(y.size(0), x.size(0));
  }
}

TEST(Float8Product, WhatIsNotFiniteIsNotHidden) {
  for (const float wrong : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    Tensor x = torch::randn({3, 16}).to(kHalf).requires_grad_();
    const Tensor weight = torch::randn({16, 4}).to(kHalf).requires_grad_();
    const Tensor y = ProjectInFloat8(x, weight, {});
    Tensor direction = torch::ones({3, 4}, kHalf);
    direction[1][2] = wrong;
    const auto gradients = torch::autograd::grad({y}, {x, weight}, {direction});
    for (const Tensor& gradient : gradients) {
      EXPECT_FALSE(gradient.isfinite().all().item<bool>());
    }
  }
}

// A layer's product and its gradients, wider and deeper than a block, and weights of both layouts.
TEST(Float8Product, ALayerIsMultipliedFromOperandsIn8Bits) {
  torch::manual_seed(2);
  for (const bool transposed : {false, true}) {
    const Tensor stored = torch::randn({1040, 1100}).to(kHalf);
    const Tensor weight = (transposed ? stored.t() : stored).detach().requires_grad_();
    const Tensor x = torch::randn({40, weight.size(1)}).to(kHalf).requires_grad_();
    const Tensor bias = torch::randn({weight.size(0)}).to(kHalf).requires_grad_();
    const Tensor direction = torch::randn({40, weight.size(0)}).to(kHalf);
    const UnitContext context(1, 1, 0, {0, 1}, /*training=*/true, {.layers_in_fp8 = true});
    const Tensor y = context.Linear(x, weight, bias);
    const auto gradients = torch::autograd::grad({y}, {x, weight, bias}, {direction});

    const Tensor a = Exact(RoundToFloat8(x, kE4M3)), w = Exact(RoundToFloat8(weight, kE4M3));
    const Tensor g = Exact(RoundToFloat8(direction, kE5M2));
    EXPECT_GT(Rounded(y, torch::mm(a, w.t()) + bias.to(kDouble)), 0.99);
    EXPECT_GT(Rounded(gradients[0], torch::mm(g, w)), 0.99);
    EXPECT_GT(Rounded(gradients[1], torch::mm(g.t(), a)), 0.99);
    EXPECT_EQ(gradients[1].strides(), weight.strides());
    EXPECT_TRUE(gradients[2].equal(direction.sum(0)));
    // And not what 16 bits give, though near it.
    const Tensor plain = torch::mm(x.to(kDouble), weight.to(kDouble).t()) + bias.to(kDouble);
    EXPECT_LT(Rounded(y, plain), 0.5);
    EXPECT_LT(Deviation(y, plain), 0.05);
  }
}

// LibTorch has the GPU's operator for the CPU, too.
TEST(Float8Product, NativeProductsAreTheEmulatedOnes) {
  torch::manual_seed(3);
  for (const auto& [m, k, n] : {std::tuple{32, 64, 48}, {7, 33, 50}, {1, 16, 1}, {160, 8, 17}}) {
    const Float8Matrix a = RoundToFloat8(torch::randn({m, k}), kE5M2);
    const Float8Matrix b = RoundToFloat8(torch::randn({n, k}), kE4M3).t();
    const Float8Matrix c = RoundToFloat8(torch::randn({m, n}), kE4M3);
    const Tensor bias = torch::randn({n}).to(kHalf);
    for (const Tensor& added : {bias, Tensor()}) {
      const Tensor native = MultiplyFloat8Natively(a, b, added, kHalf);
      EXPECT_EQ(native.sizes(), std::vector<int64_t>({m, n}));
      EXPECT_GT(Rounded(MultiplyFloat8(a, b, added, kHalf), native), 0.98);
    }
    const Tensor native = MultiplyFloat8Natively(a.t(), c, {}, kHalf);
    EXPECT_GT(Rounded(MultiplyFloat8(a.t(), c, {}, kHalf), native), 0.98);
  }
}

}  // namespace
}  // namespace spillway
