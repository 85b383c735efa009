// Of a build without CUDA: no test program links engine/torch/cuda/.
#include "engine/torch/open_compute.h"

#include "engine/machine/memory_limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

TEST(OpenCompute, ABuildWithoutCudaRefusesItAndAutoIsTheCpu) {
  const auto cuda = ChooseComputeDevice("cuda", DType::kFloat32, 0);
  EXPECT_EQ(ExitCodeOf(cuda.status()), 2);
  for (const char* part : {"--device cuda", "this build has no CUDA", "tools/build cuda"}) {
    EXPECT_THAT(cuda.status().message(), HasSubstr(part));
  }
  // What an earlier run of a build with CUDA resolved it to.
  EXPECT_EQ(ExitCodeOf(ChooseComputeDevice("cuda:0 (GPU)", DType::kFloat32, 0).status()), 2);
  const auto by_itself = ChooseComputeDevice("auto", DType::kFloat32, 0);
  ASSERT_TRUE(by_itself.ok()) << by_itself.status();
  EXPECT_THAT(by_itself->Sentence(), HasSubstr("computing on the CPU: this build has no CUDA"));
  EXPECT_EQ(ChooseComputeDevice("cpu", DType::kFloat32, 0)->Sentence(), "computing on the CPU");
  EXPECT_EQ(ExitCodeOf(ChooseComputeDevice("tpu", DType::kFloat32, 0).status()), 2);
}

TEST(OpenCompute, TheCpuIsTheHostsMemoryAndComputesAtOnce) {
  const auto opened = OpenCompute(DeviceChoice());
  ASSERT_TRUE(opened.ok());
  const ComputePlace& place = (*opened)->place;
  EXPECT_TRUE(place.where.is_cpu());
  EXPECT_EQ(place.device, nullptr);
  EXPECT_TRUE(place.computes_at_once());
  EXPECT_EQ(place.memory, HostTorchMemory());
}

TEST(OpenCompute, BudgetsOfAGpuAreItsOwnAndTheHosts) {
  DeviceChoice choice;
  choice.gpu = ComputeGpu();
  choice.gpu->free_bytes = 8000 * kMiB;
  uint64_t device = 0, host = 0;
  ChooseBudgets(choice, &device, &host);
  EXPECT_EQ(device, 7600 * kMiB);
  EXPECT_NEAR(static_cast<double>(host), static_cast<double>(SpendableMemoryBytes()), 1e9);
  device = 5, host = 7;
  ChooseBudgets(choice, &device, &host);
  EXPECT_EQ(device, 5u);
  EXPECT_EQ(host, 7u);
  // On the CPU both come from the same memory.
  device = host = 0;
  ChooseBudgets(DeviceChoice(), &device, &host);
  EXPECT_LT(device, host);
}

}  // namespace
}  // namespace spillway
