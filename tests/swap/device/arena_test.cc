#include "swap/device/arena.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/device/test_device.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Arena, IsPageAlignedZeroedAndCounted) {
  MemoryBudget budget("host", 16 << 20);
  {
    auto arena = Arena::Create((5 << 20) + 1, &budget);
    ASSERT_TRUE(arena.ok()) << arena.status();
    EXPECT_EQ((*arena)->size_bytes(), (5 << 20) + 4096);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*arena)->data()) % (2 << 20), 0);
    EXPECT_EQ(budget.used_bytes(), (5 << 20) + 4096);
    for (uint64_t i = 0; i < (*arena)->size_bytes(); i += 4096) EXPECT_EQ((*arena)->data()[i], 0);
    std::memset((*arena)->data(), 1, (*arena)->size_bytes());
  }
  EXPECT_EQ(budget.used_bytes(), 0);
}

TEST(Arena, MayBeSmallOrEmpty) {
  MemoryBudget budget("host", 4096);
  auto empty = Arena::Create(0, &budget);
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ((*empty)->size_bytes(), 0);
  auto page = Arena::Create(1, &budget);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ((*page)->size_bytes(), 4096);
  (*page)->data()[4095] = 1;
}

// What the kernel has noted of the mapping that `data` is in: " rd wr mr ... ".
std::string FlagsOfMapping(const char* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t begin, end;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2) {
      inside = begin <= address && address < end;
    } else if (inside && absl::StartsWith(line, "VmFlags:")) {
      return absl::StrCat(line.substr(8), " ");
    }
  }
  return "";
}

TEST(Arena, IsInNoCoreDumpAndNoForkedChild) {
  for (const uint64_t size_bytes : {4096, 5 << 20}) {
    auto arena = Arena::Create(size_bytes, nullptr);
    ASSERT_TRUE(arena.ok()) << arena.status();
    const std::string flags = FlagsOfMapping((*arena)->data());
    if (flags.empty()) GTEST_SKIP() << "the kernel does not tell (/proc/self/smaps)";
    EXPECT_THAT(flags, AllOf(HasSubstr(" dd "), HasSubstr(" dc ")));
  }
}

TEST(Arena, IsRefusedBeyondTheBudget) {
  MemoryBudget budget("host", 4096);
  const absl::Status status = Arena::Create(4097, &budget).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("--host-memory"));
  EXPECT_EQ(budget.used_bytes(), 0);
}

TEST(Arena, AMappingThatTheSystemRefusesNamesTheFlag) {
  MemoryBudget budget("device", UINT64_MAX);
  for (uint64_t size_bytes : {uint64_t{1} << 62, UINT64_MAX}) {
    const absl::Status status = Arena::Create(size_bytes, &budget).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(status.message(), HasSubstr("lower --device-memory"));
    EXPECT_EQ(budget.used_bytes(), 0);
  }
}

TEST(Arena, ABudgetThatNoUserGivesHasNoFlag) {
  MemoryBudget budget("bench", UINT64_MAX);
  const std::string refused(Arena::Create(uint64_t{1} << 62, &budget).status().message());
  EXPECT_THAT(refused, AllOf(HasSubstr("the bench arena"), HasSubstr("raise the limit"),
                             testing::Not(HasSubstr("--"))));
}

TEST(Arena, OnADeviceIsItsMemoryAndCountsAgainstItsBudget) {
  TestDevice device({.memory_bytes = 10000});
  MemoryBudget budget("device", 12000);
  {
    auto arena = Arena::CreateOn(&device, 8000, &budget);
    ASSERT_TRUE(arena.ok()) << arena.status();
    EXPECT_EQ(budget.used_bytes(), 8000u);
    EXPECT_EQ((*arena)->data()[7999], '\xff');  // nothing has come there yet
    EXPECT_THAT(Arena::CreateOn(&device, 4001, &budget).status().message(),
                HasSubstr("--device-memory"));
    EXPECT_THAT(Arena::CreateOn(&device, 4000, &budget).status().message(),
                HasSubstr("2000 bytes of the test device are free"));
    EXPECT_EQ(budget.used_bytes(), 8000u);
  }
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_TRUE(Arena::CreateOn(&device, 10000, &budget).ok());
}

// The device refuses copies of memory that it does not know, and ends with none registered.
TEST(Arena, PinnedForADeviceCanBeCopiedFrom) {
  TestDevice device({});
  MemoryBudget budget("both", 100000);
  auto memory = Arena::CreateOn(&device, 4096, &budget);
  ASSERT_TRUE(memory.ok());
  {
    auto pinned = Arena::Create(4096, &budget, &device);
    ASSERT_TRUE(pinned.ok()) << pinned.status();
    device.Copy(StreamId::kToDevice, (*memory)->data(), (*pinned)->data(), 4096);
    EXPECT_EQ(device.Synchronize(), absl::OkStatus());
  }
  auto plain = Arena::Create(4096, &budget);
  ASSERT_TRUE(plain.ok());
  device.Copy(StreamId::kToDevice, (*memory)->data(), (*plain)->data(), 4096);
  EXPECT_FALSE(device.Synchronize().ok());
}

}  // namespace
}  // namespace spillway
