#include "engine/machine/device_choice.h"

#include "engine/machine/memory_limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

ComputeGpu SmallGpu() {
  ComputeGpu gpu;
  gpu.ordinal = 1;
  gpu.name = "Small GPU";
  gpu.total_bytes = 8 * kGiB;
  gpu.free_bytes = 7 * kGiB;
  gpu.context_bytes = 300 * kMiB;
  return gpu;
}

const absl::Status kNoDriver = absl::FailedPreconditionError("no driver: install one");

TEST(DeviceChoice, TheWordsOfTheFlag) {
  EXPECT_EQ(*ParseDeviceWish("auto"), DeviceWish::kAuto);
  EXPECT_EQ(*ParseDeviceWish("cpu"), DeviceWish::kCpu);
  EXPECT_EQ(*ParseDeviceWish("cuda"), DeviceWish::kCuda);
  for (const char* word : {"", "gpu", "CUDA", "cuda:0"}) {
    const auto wish = ParseDeviceWish(word);
    EXPECT_EQ(wish.status().code(), absl::StatusCode::kInvalidArgument) << word;
    EXPECT_THAT(wish.status().message(), HasSubstr("--device"));
    EXPECT_THAT(wish.status().message(), HasSubstr("auto, cpu, cuda"));
  }
}

TEST(DeviceChoice, AGpuWithoutFp8IsRefusedForItAndTheCpuIsNot) {
  DeviceChoice choice;
  EXPECT_EQ(CheckFp8(choice), absl::OkStatus());
  choice.gpu = SmallGpu();
  EXPECT_THAT(std::string(CheckFp8(choice).message()),
              HasSubstr("--compute fp8: GPU 1 (Small GPU) does not multiply in 8 bits"));
  choice.gpu->has_fp8 = true;
  EXPECT_EQ(CheckFp8(choice), absl::OkStatus());
}

TEST(DeviceChoice, AutoTakesAGpuThatFits) {
  const auto choice = ChooseDevice(DeviceWish::kAuto, SmallGpu(), 7 * kGiB);
  ASSERT_TRUE(choice.ok()) << choice.status();
  ASSERT_TRUE(choice->gpu.has_value());
  EXPECT_EQ(choice->Text(), "cuda:1 (Small GPU)");
  EXPECT_EQ(choice->Sentence(), "computing on GPU 1: Small GPU, 7 GiB free of 8 GiB");
}

TEST(DeviceChoice, AutoFallsBackToTheCpuAndSaysWhy) {
  const auto without = ChooseDevice(DeviceWish::kAuto, kNoDriver, 0);
  ASSERT_TRUE(without.ok());
  EXPECT_FALSE(without->gpu.has_value());
  EXPECT_EQ(without->Text(), "cpu");
  EXPECT_EQ(without->Sentence(), "computing on the CPU: no driver: install one");
  const auto too_small = ChooseDevice(DeviceWish::kAuto, SmallGpu(), 7 * kGiB + 1);
  ASSERT_TRUE(too_small.ok());
  EXPECT_FALSE(too_small->gpu.has_value());
  EXPECT_THAT(too_small->Sentence(), HasSubstr("--device-memory"));
}

TEST(DeviceChoice, AMachineWithoutAGpuHearsNothingOfIt) {
  const auto without = ChooseDevice(DeviceWish::kAuto, kNoDriver, 0);
  EXPECT_EQ(without->Notice(/*has_gpu=*/false), "");
  EXPECT_EQ(without->Notice(/*has_gpu=*/true), "computing on the CPU: no driver: install one");
  const auto with = ChooseDevice(DeviceWish::kAuto, SmallGpu(), 0);
  EXPECT_THAT(with->Notice(false), HasSubstr("computing on GPU 1"));
}

TEST(DeviceChoice, TheCpuAsToldNeedsNoReason) {
  const auto choice = ChooseDevice(DeviceWish::kCpu, SmallGpu(), 100 * kGiB);
  ASSERT_TRUE(choice.ok());
  EXPECT_FALSE(choice->gpu.has_value());
  EXPECT_EQ(choice->Sentence(), "computing on the CPU");
}

TEST(DeviceChoice, WhoWantsAGpuGetsItOrTheError) {
  EXPECT_TRUE(ChooseDevice(DeviceWish::kCuda, SmallGpu(), 0)->gpu.has_value());
  const absl::Status refused = ChooseDevice(DeviceWish::kCuda, kNoDriver, 0).status();
  EXPECT_EQ(refused.code(), kNoDriver.code());
  EXPECT_THAT(refused.message(), HasSubstr("--device cuda"));
  EXPECT_THAT(refused.message(), HasSubstr("no driver: install one"));
}

TEST(DeviceChoice, ABudgetLargerThanTheGpuIsRefusedWithOneThatFits) {
  const absl::Status status = ChooseDevice(DeviceWish::kCuda, SmallGpu(), 9 * kGiB).status();
  EXPECT_EQ(ExitCodeOf(status), 3);
  for (const char* part : {"--device-memory 9 GiB", "GPU 1 (Small GPU)", "7 GiB are free of 8 GiB",
                           "at most --device-memory 6809MiB", "nvidia-smi"}) {
    EXPECT_THAT(status.message(), HasSubstr(part));
  }
}

TEST(DeviceChoice, TheBudgetLeavesATwentiethOfWhatIsFree) {
  EXPECT_EQ(GpuBudgetBytes(7 * kGiB), 6809 * kMiB);
  EXPECT_EQ(GpuBudgetBytes(0), 0u);
  EXPECT_EQ(GpuBudgetBytes(kMiB - 1), 0u);
}

TEST(DeviceChoice, TheCpuIsChosenWithoutALookAtGpus) {
  bool asked = false;
  const auto find = [&asked]() -> absl::StatusOr<ComputeGpu> {
    asked = true;
    return NoCudaInThisBuild();
  };
  EXPECT_FALSE(ChooseDevice("cpu", 0, find)->gpu);
  EXPECT_EQ(ExitCodeOf(ChooseDevice("tpu", 0, find).status()), 2);
  EXPECT_FALSE(asked);
  EXPECT_THAT(ChooseDevice("auto", 0, find)->why_not_gpu, HasSubstr("tools/build cuda"));
  EXPECT_TRUE(asked);
  // What an earlier choice's Text says is no wish of auto's.
  EXPECT_EQ(ExitCodeOf(ChooseDevice("cuda:1 (GPU)", 0, find).status()), 2);
}

}  // namespace
}  // namespace spillway
