#include "swap/arena.h"

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

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

}  // namespace
}  // namespace spillway
