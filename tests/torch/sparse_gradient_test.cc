#include "engine/torch/sparse_gradient.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/numeric/gradient_loops.h"
#include "engine/torch/tensor_kernels.h"

namespace spillway {
namespace {

using torch::Tensor;

Tensor Sparse(std::vector<int64_t> rows, const Tensor& values, int64_t count) {
  const Tensor indices = torch::tensor(rows, torch::kInt64).unsqueeze(0);
  std::vector<int64_t> sizes = values.sizes().vec();
  sizes[0] = count;
  return torch::sparse_coo_tensor(indices, values, sizes);
}

// What the dense gradient would have given.
Tensor Dense(const Tensor& gradient, Tensor sums, bool rounded, bool first) {
  const Tensor dense = gradient.to_dense();
  TensorKernels& kernels = KernelsOf(torch::kCPU);
  if (rounded) {
    kernels.AccumulateRounded(dense, sums.data_ptr(), first);
  } else {
    kernels.AccumulateGradient(dense, sums.data_ptr<float>(), first);
  }
  return sums;
}

TEST(AccumulateSparse, GivesWhatTheDenseGradientWould) {
  torch::manual_seed(1);
  for (const torch::ScalarType type : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
    const Tensor gradient = Sparse({39, 3, 17, 3}, torch::randn({4, 5, 7}).to(type), 40);
    for (const bool rounded : {false, true}) {
      for (const bool first : {false, true}) {
        const Tensor before = torch::randn({40, 5, 7}).to(rounded ? type : torch::kFloat32);
        Tensor sums = before.clone();
        AccumulateSparse(gradient, static_cast<char*>(sums.data_ptr()), rounded, first);
        EXPECT_TRUE(sums.equal(Dense(gradient, before.clone(), rounded, first)))
            << type << ' ' << rounded << ' ' << first;
        EXPECT_EQ(sums[4].equal(before[4]), !first);  // untouched, or zero
      }
    }
  }
}

TEST(AccumulateSparse, ThreadsChangeNoBit) {
  torch::manual_seed(2);
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < 500; ++i) rows.push_back(i * 7 % 901);
  const Tensor gradient = Sparse(rows, torch::randn({500, 33}), 901);
  const int threads = at::get_num_threads();
  const auto sums = [&](int count) {
    at::set_num_threads(count);
    Tensor found = torch::full({901, 33}, 7.0f);
    AccumulateSparse(gradient, static_cast<char*>(found.data_ptr()), false, /*first=*/true);
    return found;
  };
  EXPECT_TRUE(sums(1).equal(sums(3)));
  at::set_num_threads(threads);
}

TEST(AccumulateSparse, WithoutARowItIsZeroOrWhatItWas) {
  const Tensor gradient = Sparse({}, torch::zeros({0, 3}), 4);
  Tensor sums = torch::full({4, 3}, 2.0f);
  AccumulateSparse(gradient, static_cast<char*>(sums.data_ptr()), false, /*first=*/false);
  EXPECT_TRUE(sums.eq(2).all().item<bool>());
  AccumulateSparse(gradient, static_cast<char*>(sums.data_ptr()), false, /*first=*/true);
  EXPECT_TRUE(sums.eq(0).all().item<bool>());
}

TEST(AccumulateSparse, WhatIsSparseInMoreDimensionsIsNotTaken) {
  const Tensor gradient = torch::eye(3).to_sparse();
  EXPECT_FALSE(HasSparseRows(gradient));
  EXPECT_FALSE(HasSparseRows(torch::eye(3)));
  float sums[9];
  EXPECT_THAT([&] { AccumulateSparse(gradient, reinterpret_cast<char*>(sums), false, true); },
              testing::ThrowsMessage<c10::Error>(testing::HasSubstr("first dimension")));
}

}  // namespace
}  // namespace spillway
