#include "engine/torch/block_attention.h"

#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <optional>
#include <vector>

#include "engine/layers/attention.h"
#include "tests/torch/deviation.h"

namespace spillway {
namespace {

using torch::Tensor;

UnitContext Context(std::vector<int64_t> samples, int64_t step = 1) {
  return UnitContext(42, step, 3, std::move(samples), /*training=*/true);
}

AttentionOptions OptionsOf(int64_t heads, double dropout, bool fp32_scores = false,
                           bool fp32_products = false) {
  AttentionOptions options;
  options.heads = heads;
  options.scale = 0.3;
  options.dropout = dropout;
  options.first_site = 2;
  options.fp32_scores = fp32_scores;
  options.fp32_products = fp32_products;
  return options;
}

// The definition, in double, whole.
struct Reference {
  Tensor Run(const Tensor& qkv, int64_t heads, double scale) {
    const int64_t samples = qkv.size(0), length = qkv.size(1);
    const auto parts = qkv.view({samples, length, 3, heads, -1}).permute({2, 0, 3, 1, 4}).unbind(0);
    const Tensor hidden = torch::ones({length, length}, torch::kBool).triu(1);
    const Tensor scores = torch::matmul(parts[0], parts[1].transpose(-1, -2)) * scale;
    Tensor probabilities = torch::softmax(scores.masked_fill(hidden, -INFINITY), -1);
    if (mask.defined()) probabilities = probabilities * mask;
    return torch::matmul(probabilities, parts[2]).transpose(1, 2).reshape({samples, length, -1});
  }
  Tensor mask;  // [samples, heads, T, T], kept elements scaled
};

// Lengths of one block, of several, and with a short last one; with several groups of
// heads (2^18 elements are 2 heads of 128 x 1024).
TEST(BlockAttention, WithoutDropoutIsTheDefinition) {
  torch::manual_seed(1);
  for (const auto& [length, heads] :
       {std::pair<int64_t, int64_t>{1, 2}, {7, 3}, {128, 2}, {300, 4}, {1030, 3}}) {
    const Tensor values = torch::randn({2, length, 3 * heads * 8});
    const Tensor direction = torch::randn({2, length, heads * 8});
    const Tensor exact = values.to(torch::kFloat64).requires_grad_();
    const Tensor expected = Reference().Run(exact, heads, 0.3);
    expected.backward(direction.to(torch::kFloat64));
    for (const auto& [dtype, fp32_scores, fp32_products, tolerance] :
         {std::tuple{torch::kFloat32, false, false, 1e-6},
          {torch::kBFloat16, false, false, 2e-2},
          {torch::kBFloat16, true, false, 1e-2},
          {torch::kBFloat16, false, true, 5e-3},
          {torch::kFloat16, false, true, 6e-4},
          {torch::kFloat16, true, false, 2e-3}}) {
      if (length > 300 && dtype != torch::kFloat32) continue;
      const Tensor qkv = values.to(dtype).clone().requires_grad_();
      const Tensor out =
          AttendInBlocks(Context({0, 1}), qkv, OptionsOf(heads, 0, fp32_scores, fp32_products));
      EXPECT_EQ(out.scalar_type(), dtype);
      EXPECT_LT(Deviation(out, expected), tolerance) << length << " " << dtype;
      out.backward(direction.to(dtype));
      EXPECT_LT(Deviation(qkv.grad(), exact.grad()), tolerance) << length << " " << dtype;
    }
  }
}

// With values = unit vectors the output is the kept probabilities: reads the mask.
Tensor Masks(const std::vector<int64_t>& samples, int64_t length, int64_t heads, double p,
             int64_t step = 1) {
  Tensor qkv = torch::zeros({static_cast<int64_t>(samples.size()), length, 3, heads, length});
  qkv.select(2, 2).copy_(torch::eye(length).unsqueeze(1));
  const Tensor out =
      AttendInBlocks(Context(samples, step), qkv.flatten(2), OptionsOf(heads, p)).detach();
  // Scores are 0: row i's probabilities are 1 / (i + 1).
  const Tensor rows = torch::arange(1, length + 1).view({length, 1});
  return out.view({-1, length, heads, length}).transpose(1, 2) * rows;
}

TEST(BlockAttention, DropoutKeepsItsRateAndScale) {
  const int64_t length = 200;
  const Tensor masks = Masks({0, 1}, length, 3, 0.3);
  const double visible = length * (length + 1) / 2.0 * 6;
  EXPECT_NEAR(masks.gt(0).sum().item<double>() / visible, 0.7, 5 * std::sqrt(0.21 / visible));
  EXPECT_NEAR(masks.max().item<double>(), 1 / 0.7, 1e-4);
  EXPECT_EQ(masks.triu(1).abs().max().item<double>(), 0);
}

TEST(BlockAttention, MasksDifferByHeadRowBlockSampleAndStep) {
  const int64_t length = 256;
  const Tensor masks = Masks({0, 1}, length, 12, 0.5);  // heads in two groups
  const Tensor seen = torch::ones({length, length}, torch::kBool).tril();
  const auto agreement = [&](const Tensor& a, const Tensor& b) {
    return a.gt(0).eq(b.gt(0)).masked_select(seen).to(torch::kFloat64).mean().item<double>();
  };
  EXPECT_NEAR(agreement(masks[0][0], masks[0][1]), 0.5, 0.02);
  EXPECT_NEAR(agreement(masks[0][0], masks[0][8]), 0.5, 0.02);
  EXPECT_NEAR(agreement(masks[0][0], masks[1][0]), 0.5, 0.02);
  EXPECT_NEAR(agreement(masks[0][0], Masks({0}, length, 12, 0.5, 2)[0][0]), 0.5, 0.02);
  const Tensor block = masks[0][0].narrow(1, 0, 128);
  EXPECT_NEAR(block.narrow(0, 0, 128)
                      .gt(0)
                      .eq(block.narrow(0, 128, 128).gt(0))
                      .tril()
                      .sum()
                      .item<double>() /
                  (128 * 129 / 2),
              0.5, 0.03);
  // A sample's masks do not depend on its batch.
  EXPECT_TRUE(masks[1].equal(Masks({1}, length, 12, 0.5)[0]));
}

TEST(BlockAttention, GradientsUseTheMasksOfForward) {
  torch::manual_seed(2);
  const int64_t length = 260, heads = 10, size = 8;  // two groups of heads
  const double p = 0.4;
  Reference reference;
  reference.mask = Masks({4, 9}, length, heads, p).gt(0).to(torch::kFloat64) / (1 - p);
  const Tensor values = torch::randn({2, length, 3 * heads * size}) / 8;
  const Tensor direction = torch::randn({2, length, heads * size});
  const Tensor exact = values.to(torch::kFloat64).requires_grad_();
  const Tensor expected = reference.Run(exact, heads, 0.3);
  expected.backward(direction.to(torch::kFloat64));
  const Tensor qkv = values.clone().requires_grad_();
  const Tensor out = AttendInBlocks(Context({4, 9}), qkv, OptionsOf(heads, p));
  EXPECT_LT(Deviation(out, expected), 1e-5);
  out.backward(direction);
  EXPECT_LT(Deviation(qkv.grad(), exact.grad()), 1e-5);
}

TEST(BlockAttention, RecomputeGivesTheSameBits) {
  const Tensor qkv = torch::randn({2, 150, 3 * 32}).to(torch::kBFloat16);
  const auto run = [&] { return AttendInBlocks(Context({0, 1}), qkv, OptionsOf(4, 0.1)); };
  EXPECT_TRUE(run().equal(run()));
}

// What stands between a call and LibTorch's kernels where GenericMode is on: it notes whether
// attention's queries want a gradient, by which LibTorch chooses a kernel, too.
std::vector<bool> wanted;
constexpr c10::DispatchKey kNoting = c10::DispatchKey::TESTING_ONLY_GenericMode;

Tensor NoteAttention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                     const std::optional<Tensor>& visible, double dropout, bool causal,
                     std::optional<double> scale, bool grouped) {
  wanted.push_back(queries.requires_grad());
  const c10::impl::ExcludeDispatchKeyGuard below(kNoting);
  return at::scaled_dot_product_attention(queries, keys, values, visible, dropout, causal, scale,
                                          grouped);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, TESTING_ONLY_GenericMode, library) {
  library.impl("scaled_dot_product_attention", &NoteAttention);
}

TEST(Attention, IsAskedForTheSameWithAndWithoutAGraph) {
  wanted.clear();
  const c10::impl::IncludeDispatchKeyGuard noting(kNoting);
  const Tensor heads = torch::randn({2, 5, 2, 8});
  const AttentionOptions options = OptionsOf(2, /*dropout=*/0);
  Tensor without;
  {
    const torch::NoGradGuard no_grad;
    without = Attend(Context({0, 1}), {heads, heads, heads}, options);
  }
  const Tensor kept = heads.detach().requires_grad_();
  const Tensor with = Attend(Context({0, 1}), {kept, kept, kept}, options);
  EXPECT_EQ(wanted, std::vector<bool>({true, true}));
  EXPECT_FALSE(without.requires_grad());
  EXPECT_TRUE(torch::equal(without, with.detach()));
}

}  // namespace
}  // namespace spillway
