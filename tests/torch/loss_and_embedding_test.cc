// The two ends of a language model: TokenEmbedding and CrossEntropySum.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "engine/torch/cross_entropy.h"
#include "engine/torch/model.h"
#include "engine/torch/token_embedding.h"
#include "tests/torch/deviation.h"

namespace spillway {
namespace {

using torch::Tensor;

struct LossCase {
  explicit LossCase(int64_t rows, int64_t classes, torch::ScalarType dtype)
      : hidden(torch::randn({rows, 24}).to(dtype).requires_grad_()),
        weight((torch::randn({classes, 24}) / 2).to(dtype).requires_grad_()),
        labels(torch::randint(classes, {rows}, torch::kInt64)) {
    labels.masked_fill_(torch::rand({rows}).lt(0.2), kIgnoredLabel);
    labels[0] = 0;
  }
  Tensor hidden, weight, labels;
};

TEST(CrossEntropySum, LossAndGradientsAreTorchs) {
  torch::manual_seed(3);
  for (const auto& [rows, classes] : {std::pair<int64_t, int64_t>{1, 5}, {64, 101}, {40, 9000}}) {
    for (const auto& [dtype, fp32_products, tolerance] : {std::tuple{torch::kFloat32, false, 2e-6},
                                                          {torch::kBFloat16, false, 1e-2},
                                                          {torch::kBFloat16, true, 5e-3},
                                                          {torch::kFloat16, true, 2e-3}}) {
      LossCase c(rows, classes, dtype);
      const Tensor hidden = c.hidden.detach().to(torch::kFloat64).requires_grad_();
      const Tensor weight = c.weight.detach().to(torch::kFloat64).requires_grad_();
      const Tensor expected = at::cross_entropy_loss(torch::mm(hidden, weight.t()), c.labels,
                                                     /*weight=*/{}, at::Reduction::Sum);
      (expected * 0.25).backward();
      const Tensor loss = CrossEntropySum(c.hidden, c.weight, c.labels, fp32_products);
      EXPECT_EQ(loss.scalar_type(), torch::kFloat32);
      EXPECT_EQ(loss.dim(), 0);
      EXPECT_LT(Deviation(loss, expected), tolerance);
      (loss * 0.25).backward();
      EXPECT_LT(Deviation(c.hidden.grad(), hidden.grad()), tolerance);
      EXPECT_LT(Deviation(c.weight.grad(), weight.grad()), tolerance);
    }
  }
}

TEST(CrossEntropySum, ABiasIsAddedToTheLogits) {
  torch::manual_seed(5);
  for (const auto& [dtype, fp32_products, tolerance] :
       {std::tuple{torch::kFloat32, false, 2e-6}, {torch::kBFloat16, true, 1e-2}}) {
    LossCase c(40, 101, dtype);
    const Tensor bias = torch::randn({101}).to(dtype).requires_grad_();
    const auto doubled = [](const Tensor& x) {
      return x.detach().to(torch::kFloat64).requires_grad_();
    };
    const Tensor hidden = doubled(c.hidden), weight = doubled(c.weight), added = doubled(bias);
    const Tensor expected = at::cross_entropy_loss(torch::addmm(added, hidden, weight.t()),
                                                   c.labels, /*weight=*/{}, at::Reduction::Sum);
    expected.backward();
    const Tensor loss =
        CrossEntropySum(c.hidden, c.weight, c.labels, fp32_products, /*smoothing=*/0, bias);
    EXPECT_LT(Deviation(loss, expected), tolerance);
    loss.backward();
    EXPECT_LT(Deviation(c.hidden.grad(), hidden.grad()), tolerance);
    EXPECT_LT(Deviation(c.weight.grad(), weight.grad()), tolerance);
    EXPECT_LT(Deviation(bias.grad(), added.grad()), tolerance);
  }
}

TEST(CrossEntropySum, SmoothedLabelsAreTorchs) {
  torch::manual_seed(5);
  for (const auto& [rows, classes] : {std::pair<int64_t, int64_t>{1, 5}, {64, 101}, {40, 9000}}) {
    for (const auto& [dtype, fp32_products, tolerance] : {std::tuple{torch::kFloat32, false, 2e-6},
                                                          {torch::kBFloat16, false, 2e-2},
                                                          {torch::kFloat16, true, 2e-3}}) {
      for (const double smoothing : {0.1, 1.0}) {
        LossCase c(rows, classes, dtype);
        const Tensor hidden = c.hidden.detach().to(torch::kFloat64).requires_grad_();
        const Tensor weight = c.weight.detach().to(torch::kFloat64).requires_grad_();
        const Tensor expected =
            at::cross_entropy_loss(torch::mm(hidden, weight.t()), c.labels, {}, at::Reduction::Sum,
                                   kIgnoredLabel, smoothing);
        (expected * 0.25).backward();
        const Tensor loss = CrossEntropySum(c.hidden, c.weight, c.labels, fp32_products, smoothing);
        EXPECT_LT(Deviation(loss, expected), tolerance);
        (loss * 0.25).backward();
        EXPECT_LT(Deviation(c.hidden.grad(), hidden.grad()), tolerance);
        EXPECT_LT(Deviation(c.weight.grad(), weight.grad()), tolerance);
      }
    }
  }
}

TEST(CrossEntropySum, OnlyIgnoredLabelsGiveZero) {
  for (const double smoothing : {0.0, 0.1}) {
    LossCase c(6, 11, torch::kFloat32);
    c.labels.fill_(kIgnoredLabel);
    const Tensor loss = CrossEntropySum(c.hidden, c.weight, c.labels, false, smoothing);
    EXPECT_EQ(loss.item<float>(), 0);
    loss.backward();
    EXPECT_EQ(c.weight.grad().abs().max().item<float>(), 0);
  }
}

TEST(CrossEntropySum, LargeLogitsStayFinite) {
  LossCase c(8, 20, torch::kBFloat16);
  const Tensor hidden = (c.hidden.detach() * 1e4).requires_grad_();
  const Tensor loss = CrossEntropySum(hidden, c.weight, c.labels);
  EXPECT_TRUE(loss.isfinite().item<bool>());
  loss.backward();
  EXPECT_TRUE(hidden.grad().isfinite().all().item<bool>());
}

TEST(CrossEntropySum, ThreadsChangeNoBitOfTheLossAfterTheLogits) {
  LossCase c(300, 3000, torch::kFloat32);
  const Tensor identity = torch::eye(24);
  const int threads = at::get_num_threads();
  const auto loss = [&](int count) {
    at::set_num_threads(count);
    return CrossEntropySum(c.weight.detach().narrow(0, 0, 300), identity,
                           c.labels.clamp(-100, 23).masked_fill(c.labels.lt(0), kIgnoredLabel))
        .item<float>();
  };
  EXPECT_EQ(loss(1), loss(3));
  at::set_num_threads(threads);
}

TEST(CrossEntropySum, ALabelBeyondTheClassesAndASecondBackwardThrow) {
  LossCase c(6, 11, torch::kFloat32);
  const Tensor loss = CrossEntropySum(c.hidden, c.weight, c.labels);
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THAT([&] { loss.backward(); },
              testing::ThrowsMessage<std::exception>(testing::HasSubstr("second backward")));
  c.labels[1] = 11;
  EXPECT_ANY_THROW(CrossEntropySum(c.hidden, c.weight, c.labels));
  c.labels[1] = -1;
  EXPECT_ANY_THROW(CrossEntropySum(c.hidden, c.weight, c.labels));
}

TEST(TokenEmbedding, ValuesAndGradientsAreTorchs) {
  torch::manual_seed(4);
  for (const auto& [dtype, tolerance] :
       {std::pair{torch::kFloat32, 1e-6}, {torch::kBFloat16, 4e-3}, {torch::kFloat16, 5e-4}}) {
    const Tensor ids = torch::randint(7, {5, 30}, torch::kInt64);  // each token often
    const Tensor tokens = torch::randn({9, 16}).to(dtype).requires_grad_();
    const Tensor positions = torch::randn({40, 16}).to(dtype).requires_grad_();
    const Tensor exact_tokens = tokens.detach().to(torch::kFloat64).requires_grad_();
    const Tensor exact_positions = positions.detach().to(torch::kFloat64).requires_grad_();
    const Tensor direction = torch::randn({5, 30, 16}).to(dtype);
    const Tensor expected = torch::embedding(exact_tokens, ids) + exact_positions.narrow(0, 0, 30);
    expected.backward(direction.to(torch::kFloat64));
    const Tensor out = TokenEmbedding(ids, tokens, positions);
    EXPECT_LT(Deviation(out, expected), tolerance);
    out.backward(direction);
    ASSERT_TRUE(tokens.grad().is_sparse());  // a row for every token that occurs
    EXPECT_EQ(tokens.grad()._nnz(), 7);
    const Tensor gradient = tokens.grad().to_dense();
    EXPECT_LT(Deviation(gradient, exact_tokens.grad()), tolerance);
    EXPECT_LT(Deviation(positions.grad(), exact_positions.grad()), tolerance);
    EXPECT_EQ(gradient[8].abs().max().item<float>(), 0);
    EXPECT_EQ(positions.grad().narrow(0, 30, 10).abs().max().item<float>(), 0);
  }
}

TEST(TokenEmbedding, ThreadsChangeNoGradientBit) {
  const Tensor ids = torch::randint(50, {4, 200}, torch::kInt64);
  const Tensor direction = torch::randn({4, 200, 16}).to(torch::kBFloat16);
  const int threads = at::get_num_threads();
  const auto gradient = [&](int count) {
    at::set_num_threads(count);
    const Tensor tokens = torch::zeros({50, 16}, torch::kBFloat16).requires_grad_();
    TokenEmbedding(ids, tokens, torch::zeros({200, 16}, torch::kBFloat16)).backward(direction);
    return tokens.grad().to_dense();
  };
  EXPECT_TRUE(gradient(1).equal(gradient(3)));
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace spillway
