#include "engine/torch/tensor_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/numeric/gradient_loops.h"
#include "engine/torch/model.h"
#include "tests/torch/recording_kernels.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;

TEST(TensorKernels, SumsOnTheCpuAreFp32AndTheFirstReplaces) {
  std::vector<float> sums(200'000, 7);
  const torch::Tensor gradient = torch::arange(200'000).to(torch::kBFloat16);
  TensorKernels& kernels = KernelsOf(torch::kCPU);
  kernels.AccumulateGradient(gradient, sums.data(), /*first=*/true);
  kernels.AccumulateGradient(gradient, sums.data(), /*first=*/false);
  const torch::Tensor expected = gradient.to(torch::kFloat32) * 2;
  EXPECT_TRUE(torch::equal(torch::from_blob(sums.data(), {200'000}), expected));
  kernels.FillZero(sums.data() + 5, 3 * sizeof(float));
  EXPECT_EQ(sums[5] + sums[6] + sums[7], 0);
  EXPECT_EQ(sums[8], 16);
}

TEST(TensorKernels, ADeviceWithoutAnyIsNamed) {
  EXPECT_THAT([] { KernelsOf(torch::kMeta); },
              testing::ThrowsMessage<c10::Error>(testing::HasSubstr("meta")));
}

TEST(TensorKernels, DropoutAsksThoseOfTheTensorsDevice) {
  RecordingKernels kernels(torch::kMeta);
  const UnitContext context(/*seed=*/9, /*step=*/3, /*unit=*/2, {4, 6}, /*training=*/true);
  const torch::Tensor x = torch::empty({2, 10}, torch::kMeta).requires_grad_();
  const torch::Tensor y = context.Dropout(x, 0.5, /*site=*/1);
  EXPECT_TRUE(y.is_meta());
  y.backward(torch::empty({2, 10}, torch::kMeta));
  EXPECT_THAT(kernels.calls, ElementsAre("dropout seed 9 step 3 unit 2 site 1 samples 4,6 of 20",
                                         "dropout seed 9 step 3 unit 2 site 1 samples 4,6 of 20"));
}

TEST(TensorKernels, DTypesOfARunAndNoOthers) {
  EXPECT_EQ(DTypeOf(torch::zeros({1}, torch::kFloat16), "test"), DType::kFloat16);
  EXPECT_THAT([] { DTypeOf(torch::zeros({1}, torch::kFloat64), "test"); },
              testing::ThrowsMessage<c10::Error>(testing::HasSubstr("test: dtype")));
}

}  // namespace
}  // namespace spillway
