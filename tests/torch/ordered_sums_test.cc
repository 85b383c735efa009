#include "engine/torch/ordered_sums.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include "engine/torch/token_embedding.h"

namespace spillway {
namespace {

using torch::Tensor;

TEST(OrderedSums, RowsOfATokenGiveTheBitsOfTheCpusOwnSums) {
  torch::manual_seed(6);
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
    const Tensor ids = torch::randint(5, {3, 40}, torch::kInt64);  // each often, 5..7 never
    const Tensor tokens = torch::randn({8, 24}).to(dtype).requires_grad_();
    const Tensor gradient = torch::randn({3, 40, 24}).to(dtype);
    TokenEmbedding(ids, tokens, torch::zeros({40, 24}, dtype)).backward(gradient);
    EXPECT_TRUE(
        torch::equal(SumRowsByToken(gradient.flatten(0, 1), ids, 8), tokens.grad().to_dense()));
  }
}

TEST(OrderedSums, ManyTokensAreSummedAFewColumnsAtATime) {
  torch::manual_seed(7);
  const int64_t rows = 6'000'000;  // two columns in 64 MiB
  const Tensor ids = torch::randint(rows, {50}, torch::kInt64);
  const Tensor gradient = torch::randn({50, 5});
  const Tensor sums = SumRowsByToken(gradient, ids, rows);
  ASSERT_EQ(sums.sizes(), torch::IntArrayRef({rows, 5}));
  Tensor expected = torch::zeros({rows, 5});
  expected.index_add_(0, ids, gradient);
  EXPECT_TRUE(torch::equal(sums, expected));
}

TEST(OrderedSums, TheSameIsSubtractedInEveryRow) {
  torch::manual_seed(8);
  Tensor values = torch::rand({30, 11});
  const Tensor index = torch::randint(11, {30, 1}, torch::kInt64);
  const Tensor expected = values.scatter_add(1, index, torch::full({30, 1}, -0.75f));
  SubtractPerRow(values, index, 0.75);
  EXPECT_TRUE(torch::equal(values, expected));
}

}  // namespace
}  // namespace spillway
