// Products of 16-bit matrices in fp32, against doubles and against what LibTorch does in 16 bits.
#include "engine/torch/product.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <vector>

#include "engine/torch/model.h"
#include "tests/torch/deviation.h"

namespace spillway {
namespace {

using torch::Tensor;

TEST(Product, BlocksOfAnyStridesAreSummedAndRoundedOnce) {
  torch::manual_seed(1);
  for (const torch::ScalarType dtype : {torch::kBFloat16, torch::kFloat16}) {
    const Tensor a = torch::randn({70, 130}).to(dtype), b = torch::randn({50, 130}).to(dtype).t();
    const Tensor bias = torch::randn({50}).to(dtype);
    const auto exact = [](const Tensor& x, const Tensor& y) {
      return torch::mm(x.to(torch::kFloat64), y.to(torch::kFloat64));
    };
    for (const int64_t most : {16, 64, 1024}) {
      const Tensor found = ProductInFp32(a, b, bias, most);
      EXPECT_EQ(found.scalar_type(), dtype);
      EXPECT_GT(Rounded(found, exact(a, b) + bias.to(torch::kFloat64)), 0.995) << most;
      EXPECT_GT(Rounded(ProductInFp32(a.t(), found, {}, most), exact(a.t(), found)), 0.995);
      EXPECT_GT(Rounded(ProductInFp32(found, b.t(), {}, most), exact(found, b.t())), 0.995);
    }
  }
}

// x, weight and bias of one dtype, their product and its gradients.
struct LinearCase {
  LinearCase(const Tensor& x, const Tensor& weight, const Tensor& bias, torch::ScalarType dtype)
      : parts{x.to(dtype).clone(), weight.to(dtype).clone(), bias.to(dtype).clone()} {
    for (Tensor& part : parts) part.requires_grad_();
  }
  // The result, and the gradients of x, weight and bias.
  std::vector<Tensor> Run(bool fp32_products, const Tensor& direction) {
    const UnitContext context(1, 1, 0, {0, 1}, /*training=*/true, {.in_fp32 = fp32_products});
    const Tensor y = context.Linear(parts[0], parts[1], parts[2]);
    y.backward(direction.to(y.scalar_type()));
    return {y.detach(), parts[0].grad(), parts[1].grad(), parts[2].grad()};
  }
  std::vector<Tensor> parts;
};

// Wider and deeper than a block, and weights of both layouts.
TEST(Product, LinearInFp32IsAtLeastAsNearAsLibTorchsIn16Bits) {
  torch::manual_seed(2);
  for (const bool transposed : {false, true}) {
    const Tensor weight = torch::randn({1040, 1100}).to(torch::kBFloat16);
    const Tensor x = torch::randn({2, 20, transposed ? 1040 : 1100}).to(torch::kBFloat16);
    const Tensor w = transposed ? weight.t() : weight;
    const Tensor bias = torch::randn({w.size(0)}).to(torch::kBFloat16);
    const Tensor direction = torch::randn({2, 20, w.size(0)}).to(torch::kBFloat16);
    const auto exact = LinearCase(x, w, bias, torch::kFloat64).Run(false, direction);
    const auto wide = LinearCase(x, w, bias, torch::kBFloat16).Run(true, direction);
    const auto narrow = LinearCase(x, w, bias, torch::kBFloat16).Run(false, direction);
    for (size_t i = 0; i < exact.size(); ++i) {
      EXPECT_EQ(wide[i].scalar_type(), torch::kBFloat16);
      EXPECT_EQ(wide[i].strides(), narrow[i].strides()) << i;
      EXPECT_GT(Rounded(wide[i], exact[i]), 0.995) << i;
      EXPECT_LE(Deviation(wide[i], exact[i]), 1.01 * Deviation(narrow[i], exact[i])) << i;
    }
  }
}

TEST(Product, LinearWithoutABias) {
  const Tensor x = torch::randn({3, 8}).to(torch::kBFloat16).requires_grad_();
  const Tensor weight = torch::randn({4, 8}).to(torch::kBFloat16);
  for (const bool fp32_products : {false, true}) {
    const UnitContext context(1, 1, 0, {0, 1, 2}, true, {.in_fp32 = fp32_products});
    const Tensor y = context.Linear(x, weight);
    EXPECT_LT(Deviation(y, torch::mm(x.to(torch::kFloat64), weight.to(torch::kFloat64).t())), 5e-3);
    EXPECT_TRUE(torch::autograd::grad({y.sum()}, {x})[0].isfinite().all().item<bool>());
  }
}

}  // namespace
}  // namespace spillway
