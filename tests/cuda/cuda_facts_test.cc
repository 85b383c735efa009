#include "swap/device/cuda/cuda_facts.h"

#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda/standin_cudart.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string FactsText(const absl::Status& status) { return status.ToString(); }

CudaDeviceFacts Gpu(const std::string& name, int capability) {
  CudaDeviceFacts device;
  device.ordinal = 3;
  device.name = name;
  device.capability = capability;
  return device;
}

class CudaFactsTest : public testing::Test {
 protected:
  void SetUp() override { ::unsetenv("CUDA_VISIBLE_DEVICES"); }
  void TearDown() override { ::unsetenv("CUDA_VISIBLE_DEVICES"); }
};

TEST_F(CudaFactsTest, DevicesAreReadAndNoneIsOpened) {
  StandinCudart::Reset({.devices = 2,
                        .name = "NVIDIA T4",
                        .capability = 75,
                        .memory_bytes = uint64_t{16} << 30,
                        .driver_version = 13010});
  const auto facts = ReadCudaFacts();
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->driver_version, 13010);
  EXPECT_EQ(facts->runtime_version, 13000);
  ASSERT_EQ(facts->devices.size(), 2);
  const CudaDeviceFacts& second = facts->devices[1];
  EXPECT_EQ(second.ordinal, 1);
  EXPECT_EQ(second.name, "NVIDIA T4");
  EXPECT_EQ(second.capability, 75);
  EXPECT_EQ(second.total_bytes, uint64_t{16} << 30);
  EXPECT_EQ(second.pci_address, "0000:18:00.0");
  EXPECT_EQ(second.numa_node, 1);
  EXPECT_THAT(StandinCudart::Contexts(), testing::IsEmpty());
}

TEST_F(CudaFactsTest, NoDriverIsSaid) {
  StandinCudart::Reset({.driver_version = 0});
  const absl::Status status = ReadCudaFacts().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(FactsText(status), AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("--device cpu")));
}

TEST_F(CudaFactsTest, ADriverThatIsTooOldIsSaidWithBothVersions) {
  StandinCudart::Reset({.driver_version = 12080});
  const absl::Status status = ReadCudaFacts().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(FactsText(status), AllOf(HasSubstr("CUDA up to 12.8"), HasSubstr("needs CUDA 13.0"),
                                       HasSubstr("update the driver")));
}

TEST_F(CudaFactsTest, NoDeviceIsSaidWithWhatHidesIt) {
  StandinCudart::Reset({.devices = 0});
  EXPECT_THAT(FactsText(ReadCudaFacts().status()), HasSubstr("no GPU that CUDA can use"));
  ::setenv("CUDA_VISIBLE_DEVICES", "7", 1);
  const absl::Status hidden = ReadCudaFacts().status();
  EXPECT_EQ(hidden.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(FactsText(hidden), HasSubstr("CUDA_VISIBLE_DEVICES is \"7\""));
}

TEST_F(CudaFactsTest, AnotherErrorOfTheDriverIsNamedWithItsCall) {
  for (const char* function : {"cudaDriverGetVersion", "cudaRuntimeGetVersion",
                               "cudaGetDeviceCount", "cudaGetDeviceProperties"}) {
    StandinCudart::Reset({});
    StandinCudart::Fail(function, 1, cudaErrorSystemDriverMismatch);
    const absl::Status status = ReadCudaFacts().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(FactsText(status), AllOf(HasSubstr(function), HasSubstr("different versions")));
  }
}

TEST_F(CudaFactsTest, ADeviceMustBeTuringOrLater) {
  EXPECT_TRUE(CheckCudaDevice(Gpu("NVIDIA T4", 75)).ok());
  EXPECT_TRUE(CheckCudaDevice(Gpu("RTX PRO 6000", 120)).ok());
  const absl::Status status = CheckCudaDevice(Gpu("Tesla V100", 70));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(FactsText(status), AllOf(HasSubstr("Tesla V100 (device 3)"), HasSubstr("7.0"),
                                       HasSubstr("7.5"), HasSubstr("--device cpu")));
}

TEST_F(CudaFactsTest, Bf16IsRefusedBeforeAmpereAndFp16Proposed) {
  EXPECT_TRUE(CheckCudaBf16(Gpu("NVIDIA A100", 80)).ok());
  const absl::Status status = CheckCudaBf16(Gpu("NVIDIA T4", 75));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(FactsText(status), AllOf(HasSubstr("NVIDIA T4"), HasSubstr("--dtype fp16")));
}

TEST_F(CudaFactsTest, ARankTakesTheDeviceOfItsLocalNumber) {
  EXPECT_EQ(ChooseCudaOrdinal(nullptr, 4).value(), 0);
  EXPECT_EQ(ChooseCudaOrdinal("0", 1).value(), 0);
  EXPECT_EQ(ChooseCudaOrdinal("3", 4).value(), 3);
  const absl::Status above = ChooseCudaOrdinal("4", 4).status();
  EXPECT_EQ(above.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(FactsText(above), AllOf(HasSubstr("LOCAL_RANK is 4"), HasSubstr("4 GPUs")));
  EXPECT_THAT(FactsText(ChooseCudaOrdinal("1", 1).status()), HasSubstr("1 GPU is"));
  for (const char* wrong : {"", "-1", "two", "1.5", "99999999999"}) {
    EXPECT_EQ(ChooseCudaOrdinal(wrong, 4).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(CudaFactsTest, MemoryIsAsTheDriverCountsIt) {
  StandinCudart::Reset({.devices = 2, .memory_bytes = 64 << 20});
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  void* used;
  ASSERT_EQ(cudaMalloc(&used, 16 << 20), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const auto memory = ReadCudaMemory(1);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->free_bytes, 48 << 20);
  EXPECT_EQ(memory->total_bytes, 64 << 20);
  ASSERT_EQ(cudaFree(used), cudaSuccess);

  StandinCudart::Reset({.busy = true});
  const absl::Status busy = ReadCudaMemory(0).status();
  EXPECT_EQ(busy.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(FactsText(busy), AllOf(HasSubstr("device 0"), HasSubstr("another process")));
}

}  // namespace
}  // namespace spillway
