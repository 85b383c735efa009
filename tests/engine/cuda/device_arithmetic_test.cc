// Launches, and the status of a refused launch. tests/gpu/kernels_test.cc holds the kernels'
// bodies to the CPU's loops, bit for bit.
#include "engine/cuda/device_arithmetic.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/launch_status.h"
#include "engine/numeric/optimizer_spec.h"
#include "tests/engine/cuda/emulated_kernels.h"

namespace spillway {
namespace {

TEST(DeviceArithmetic, NothingToDoIsNoLaunch) {
  const int before = Launches().kernels;
  EXPECT_TRUE(
      AccumulateGradientOnDevice(EmulatedStream(), DType::kFloat32, nullptr, 0, nullptr, true)
          .ok());
  EXPECT_TRUE(
      DropoutApplyOnDevice(EmulatedStream(), {}, 0.5, 0, 0, DType::kFloat32, nullptr, nullptr)
          .ok());
  EXPECT_EQ(Launches().kernels, before);
}

TEST(DeviceArithmetic, ARefusedLaunchIsAnErrorWithItsReason) {
  float number = 1;
  const RefusedLaunches refused("out of memory");
  const absl::Status accumulate =
      AccumulateGradientOnDevice(EmulatedStream(), DType::kFloat32, &number, 1, &number, true);
  EXPECT_EQ(
      accumulate,
      absl::InternalError("CUDA did not take the kernel for gradient accumulation: out of memory"));
  EXPECT_FALSE(
      DropoutApplyOnDevice(EmulatedStream(), {}, 0.5, 0, 1, DType::kFloat32, &number, &number)
          .ok());
}

TEST(DeviceArithmetic, ABuildWithoutKernelsForTheGpuIsNamedWithItsRemedy) {
  float number = 1;
  const std::string reason = kNoKernels;  // the text counts, not where it lies
  const RefusedLaunches refused(reason.c_str());
  EXPECT_EQ(
      AccumulateGradientOnDevice(EmulatedStream(), DType::kFloat32, &number, 1, &number, true),
      absl::FailedPreconditionError(
          "CUDA did not take the kernel for gradient accumulation: this build has no kernels for "
          "this GPU: use another GPU or a newer build"));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      LaunchStatus("zeros", LaunchZero(EmulatedStream(), &number, sizeof(number)))));
  EXPECT_EQ(number, 1);
}

}  // namespace
}  // namespace spillway
