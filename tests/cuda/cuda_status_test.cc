#include "swap/device/cuda/cuda_status.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda/standin_cudart.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CudaStatus, NamesTheCallTheErrorAndTheRemedy) {
  const absl::Status status = CudaStatus(cudaErrorMemoryAllocation, "cudaMalloc of 8 GiB");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cudaMalloc of 8 GiB: out of memory (cudaErrorMemoryAllocation)"),
                    HasSubstr("--device-memory")));
}

// Exit codes hang on the codes: 2 for what the user can set right before the run, 1 for what
// went wrong in it.
TEST(CudaStatus, CodesSayWhoseTurnItIs) {
  EXPECT_EQ(CudaStatus(cudaErrorInsufficientDriver, "").code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CudaStatus(cudaErrorNoKernelImageForDevice, "").code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CudaStatus(cudaErrorDevicesUnavailable, "").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CudaStatus(cudaErrorECCUncorrectable, "").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CudaStatus(cudaErrorIllegalAddress, "").code(), absl::StatusCode::kInternal);
  EXPECT_EQ(CudaStatus(cudaErrorInvalidValue, "").code(), absl::StatusCode::kInternal);
}

TEST(CudaStatus, LeavesNoErrorForTheNextKernelOfThisThread) {
  StandinCudart::Reset({});
  const cudaError_t error = cudaSetDevice(99);
  ASSERT_NE(error, cudaSuccess);
  EXPECT_FALSE(CudaStatus(error, "cudaSetDevice").ok());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace spillway
