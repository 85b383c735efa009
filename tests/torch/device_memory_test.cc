#include "engine/torch/device_memory.h"

#include <torch/types.h>

#include "engine/machine/memory_limits.h"
#include "engine/torch/torch_memory.h"
#include "gtest/gtest.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

class DeviceMemoryTest : public testing::Test {
 protected:
  DeviceMemoryTest() { DeviceMemory::Install(&budget_); }
  ~DeviceMemoryTest() override { DeviceMemory::Install(nullptr); }

  static torch::Tensor Take(int64_t mib) {
    return torch::empty({mib * int64_t{kMiB}}, torch::kUInt8);
  }

  MemoryBudget budget_{"device", 10 * kMiB};
};

TEST_F(DeviceMemoryTest, ABlockComesBackToWhoAsksForItsSize) {
  torch::Tensor a = Take(4);
  const void* address = a.data_ptr();
  a = torch::Tensor();
  EXPECT_EQ(DeviceMemory::live_bytes(), 0u);
  EXPECT_EQ(DeviceMemory::held_bytes(), 4u * kMiB);
  EXPECT_EQ(Take(4).data_ptr(), address);
  EXPECT_EQ(budget_.used_bytes(), 4u * kMiB);
}

TEST_F(DeviceMemoryTest, WhatLeavesTheCachesStaysWhatItIs) {
  torch::Tensor ones = torch::ones({kMiB}, torch::kUInt8), few = torch::ones({3}, torch::kUInt8);
  DeviceMemory::Evict();
  EXPECT_EQ(ones.sum().item<int64_t>(), int64_t{kMiB});
  EXPECT_EQ(few.sum().item<int64_t>(), 3);
}

TEST_F(DeviceMemoryTest, OnlyWhatIsInTheWayIsGivenBack) {
  torch::Tensor one = Take(1), two = Take(2), four = Take(4);
  const void* address = four.data_ptr();
  one = two = four = torch::Tensor();
  ASSERT_EQ(DeviceMemory::held_bytes(), 7u * kMiB);
  const torch::Tensor five = Take(5);  // 2 MiB too many: the block of 2 goes
  EXPECT_EQ(DeviceMemory::held_bytes(), 10u * kMiB);
  const torch::Tensor again = Take(4);
  EXPECT_EQ(again.data_ptr(), address);
  EXPECT_EQ(DeviceMemory::live_bytes(), 9u * kMiB);
  EXPECT_EQ(DeviceMemory::held_bytes(), 10u * kMiB);
}

TEST_F(DeviceMemoryTest, SeveralGoWhereNoneIsLargeEnough) {
  torch::Tensor a = Take(1), b = Take(3), c = Take(3);
  a = b = c = torch::Tensor();
  const torch::Tensor nine = Take(9);
  EXPECT_EQ(DeviceMemory::held_bytes(), 10u * kMiB);  // the block of 1 is still there
}

TEST_F(DeviceMemoryTest, ASizeThatIsRoundedUpToLargeIsLarge) {
  torch::Tensor almost = torch::empty({256 * 1024 - 1}, torch::kUInt8);
  EXPECT_EQ(DeviceMemory::live_bytes(), 256u * 1024);
  const void* address = almost.data_ptr();
  almost = torch::Tensor();
  EXPECT_EQ(torch::empty({256 * 1024}, torch::kUInt8).data_ptr(), address);
  DeviceMemory::Trim();
  EXPECT_EQ(DeviceMemory::held_bytes(), 0u);
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

TEST_F(DeviceMemoryTest, PastTheLimitTheErrorNamesTheBudget) {
  const torch::Tensor eight = Take(8);
  try {
    Take(3);
    FAIL() << "11 of 10 MiB";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_NE(std::string(error.what()).find("raise --device-memory"), std::string::npos);
  }
  EXPECT_EQ(budget_.used_bytes(), 8u * kMiB);
}

TEST_F(DeviceMemoryTest, WhatIsAliveMovesOnlyWhereItFits) {
  const torch::Tensor eight = Take(8);
  MemoryBudget small("device", 6 * kMiB), large("device", 9 * kMiB);
  const absl::Status status = HostTorchMemory()->MoveTo(&small);
  EXPECT_EQ(ExitCodeOf(status), 3);
  EXPECT_NE(status.message().find("take 8 MiB, for which there are 6 MiB: hold fewer, or raise "
                                  "--device-memory by 2 MiB"),
            std::string::npos)
      << status;
  EXPECT_EQ(budget_.used_bytes(), 8u * kMiB);
  EXPECT_EQ(HostTorchMemory()->MoveTo(&large), absl::OkStatus());
  EXPECT_EQ(large.used_bytes(), 8u * kMiB);
  DeviceMemory::Install(&budget_);
}

}  // namespace
}  // namespace spillway
