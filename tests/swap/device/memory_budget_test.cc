#include "swap/device/memory_budget.h"

#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

using testing::HasSubstr;

TEST(FormatBytes, ReadsLikeAPersonWouldWriteIt) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1), "1 B");
  EXPECT_EQ(FormatBytes(1024), "1 KiB");
  EXPECT_EQ(FormatBytes(5000), "5000 B");
  EXPECT_EQ(FormatBytes(9999), "9999 B");
  EXPECT_EQ(FormatBytes(10000), "9.77 KiB");
  EXPECT_EQ(FormatBytes(512ull << 20), "512 MiB");
  EXPECT_EQ(FormatBytes(3ull << 29), "1.5 GiB");
  EXPECT_EQ(FormatBytes((1ull << 30) - 1), "1 GiB");
  EXPECT_EQ(FormatBytes(1000ull << 30), "1000 GiB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "16 EiB");
}

TEST(FormatBytes, AFlagIsNeverTooSmall) {
  EXPECT_EQ(FormatBytesForFlag(0), "0MiB");
  EXPECT_EQ(FormatBytesForFlag(1), "1MiB");
  EXPECT_EQ(FormatBytesForFlag(1 << 20), "1MiB");
  EXPECT_EQ(FormatBytesForFlag((1 << 20) + 1), "2MiB");
  EXPECT_EQ(FormatBytesForFlag(UINT64_MAX), "17592186044416MiB");
}

TEST(MemoryBudget, ReservationsGiveThemselvesBack) {
  MemoryBudget budget("host", 100);
  {
    auto first = budget.Reserve(60, "a test");
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(first->size_bytes(), 60);
    MemoryReservation moved = *std::move(first);
    EXPECT_EQ(budget.used_bytes(), 60);
    auto second = budget.Reserve(40, "a test");
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(budget.used_bytes(), 100);
    moved = *std::move(second);  // gives the first one back
    EXPECT_EQ(budget.used_bytes(), 40);
    EXPECT_EQ(moved.size_bytes(), 40);
    moved.Release();
    moved.Release();
    EXPECT_EQ(budget.used_bytes(), 0);
  }
  EXPECT_EQ(budget.used_bytes(), 0);
  EXPECT_EQ(budget.peak_bytes(), 100);
  budget.ResetPeak();
  EXPECT_EQ(budget.peak_bytes(), 0);
}

TEST(MemoryBudget, RefusalNamesTheFlagAndWhatWouldDo) {
  MemoryBudget budget("host", 1 << 30);
  auto held = budget.Reserve(512 << 20, "the arena");
  ASSERT_TRUE(held.ok());
  const absl::Status status = budget.Reserve((512 << 20) + 1, "activations").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "host memory: 512 MiB needed for activations, 512 MiB of 1 GiB in use; raise "
            "--host-memory to at least 1025MiB");
  EXPECT_EQ(budget.used_bytes(), 512 << 20);
  EXPECT_EQ(budget.peak_bytes(), 512 << 20);
  EXPECT_THAT(MemoryBudget("device", 1).Reserve(2, "x").status().message(),
              HasSubstr("--device-memory"));
  EXPECT_EQ(MemoryBudget("probe", 1).Reserve(2, "x").status().message(),
            "probe memory: 2 B needed for x, 0 B of 1 B in use");
}

TEST(MemoryBudget, HugeRequestsDoNotWrapAround) {
  MemoryBudget budget("host", 100);
  ASSERT_TRUE(budget.TryAdd(50));
  EXPECT_FALSE(budget.TryAdd(UINT64_MAX));
  EXPECT_FALSE(budget.TryAdd(UINT64_MAX - 49));
  EXPECT_FALSE(budget.Reserve(UINT64_MAX, "x").ok());
  EXPECT_EQ(budget.used_bytes(), 50);
  budget.Subtract(50);
}

TEST(MemoryBudgetDeathTest, GivingBackMoreThanHeldIsOurMistake) {
  MemoryBudget budget("host", 100);
  EXPECT_DEATH(budget.Subtract(1), "");
}

TEST(MemoryBudget, ThreadsTogetherNeverPassTheLimit) {
  MemoryBudget budget("host", 1000);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&budget, i] {
      for (int n = 0; n < 5000; ++n) {
        const uint64_t size_bytes = 1 + (n * 7 + i) % 400;
        if (budget.TryAdd(size_bytes)) budget.Subtract(size_bytes);
        auto reservation = budget.Reserve(size_bytes, "x");
        EXPECT_LE(budget.used_bytes(), 1000);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used_bytes(), 0);
  EXPECT_LE(budget.peak_bytes(), 1000);
}

}  // namespace
}  // namespace spillway
