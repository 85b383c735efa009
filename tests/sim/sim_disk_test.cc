#include "tests/sim/sim_disk.h"

#include <cstring>
#include <map>
#include <string>

#include "gtest/gtest.h"
#include "tests/sim/sim_file_system.h"

namespace spillway {
namespace {

// What is found after a power loss, over many seeds, and how often.
template <typename Prepare>
std::map<std::string, int> AfterPowerLoss(const Prepare& prepare) {
  std::map<std::string, int> found;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SimWorld world(seed, false);
    SimDisk disk(world);
    disk.AddDirectory("/sim");
    SimFileSystem files(disk);
    prepare(files);
    disk.LosePower();
    const auto content = files.ReadSmallFile("/sim/a");
    ++found[content.ok() ? *content : "none"];
  }
  return found;
}

void Write(SimFileSystem& files, const char* path, const char* content, bool sync) {
  auto file = files.Create(path, FileAccess::kPrivate);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append(content).ok());
  if (sync) {
    ASSERT_TRUE((*file)->Sync().ok());
  }
}

TEST(SimDisk, WhatIsSyncedSurvives) {
  const auto found = AfterPowerLoss([](SimFileSystem& files) {
    Write(files, "/sim/a", "one", true);
    ASSERT_TRUE(files.SyncDirectory("/sim").ok());
  });
  EXPECT_EQ(found, (std::map<std::string, int>{{"one", 300}}));
}

TEST(SimDisk, ANameThatIsNotSyncedMayBeLost) {
  const auto found =
      AfterPowerLoss([](SimFileSystem& files) { Write(files, "/sim/a", "one", true); });
  EXPECT_EQ(found.size(), 2u);
  EXPECT_GT(found.at("one"), 20);
  EXPECT_GT(found.at("none"), 20);
}

TEST(SimDisk, BytesThatAreNotSyncedMayBeLost) {
  const auto found = AfterPowerLoss([](SimFileSystem& files) {
    Write(files, "/sim/a", "one", false);
    ASSERT_TRUE(files.SyncDirectory("/sim").ok());
  });
  EXPECT_GT(found.at("one"), 20);
  EXPECT_GT(found.at(""), 20);
  EXPECT_GT(found.at(std::string(3, '\0')), 20);  // the length, and not the bytes
}

TEST(SimDisk, ARenameIsOldOrNew) {
  const auto found = AfterPowerLoss([](SimFileSystem& files) {
    Write(files, "/sim/a", "one", true);
    ASSERT_TRUE(files.SyncDirectory("/sim").ok());
    Write(files, "/sim/b", "two", true);
    ASSERT_TRUE(files.Rename("/sim/b", "/sim/a").ok());
  });
  EXPECT_EQ(found.size(), 2u);
  EXPECT_GT(found.at("one"), 20);
  EXPECT_GT(found.at("two"), 20);
}

TEST(SimDisk, AFailedSyncIsFollowedByOneThatSucceedsFalsely) {
  const auto found = AfterPowerLoss([](SimFileSystem& files) {
    Write(files, "/sim/a", "one", true);
    ASSERT_TRUE(files.SyncDirectory("/sim").ok());
  });
  EXPECT_EQ(found.size(), 1u);
  int lost = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SimWorld world(seed, false);
    SimDisk disk(world);
    disk.AddDirectory("/sim");
    SimFileSystem files(disk);
    auto file = files.Open("/sim/a", {.write = true, .create = true});
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(files.SyncDirectory("/sim").ok());
    alignas(4096) char zeros[4096], ones[4096], got[4096];
    std::memset(zeros, '0', sizeof(zeros));
    std::memset(ones, '1', sizeof(ones));
    ASSERT_TRUE((*file)->WriteAt(0, zeros, sizeof(zeros)).ok());
    ASSERT_TRUE((*file)->Sync().ok());
    ASSERT_TRUE((*file)->WriteAt(0, ones, sizeof(ones)).ok());
    disk.faults().Arm(SimFault::kSyncError, 0);
    EXPECT_EQ((*file)->Sync().code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE((*file)->Sync().ok());
    disk.LosePower();
    ASSERT_TRUE((*file)->ReadAt(0, got, sizeof(got)).ok());
    const bool old = std::memcmp(got, zeros, sizeof(got)) == 0;
    EXPECT_TRUE(old || std::memcmp(got, ones, sizeof(got)) == 0);
    lost += old;
  }
  EXPECT_GT(lost, 20);
  EXPECT_LT(lost, 80);
}

TEST(SimDisk, AfterACrashEveryCallFailsUntilBoot) {
  SimWorld world(1, false);
  SimDisk disk(world);
  disk.AddDirectory("/sim");
  SimFileSystem files(disk);
  Write(files, "/sim/a", "one", true);
  disk.ArmCrash(SimDisk::CrashKind::kKill, 0, SimDisk::CrashAt::kCalls);
  EXPECT_FALSE(files.Remove("/sim/a").ok());
  EXPECT_TRUE(disk.crashed());
  EXPECT_FALSE(files.Remove("/sim/a").ok());
  EXPECT_FALSE(files.ReadSmallFile("/sim/a").ok());
  disk.Boot();
  EXPECT_EQ(*files.ReadSmallFile("/sim/a"), "one");
}

// Else a manifest of one sector, written onto the last commit's, would be a commit that nobody
// made.
TEST(SimDisk, AMisdirectedSectorDamagesOtherFilesButMakesNoneWholeAnother) {
  int damaged = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SimWorld world(seed, false);
    SimDisk disk(world);
    disk.AddDirectory("/sim");
    SimFileSystem files(disk);
    Write(files, "/sim/short", "123", true);
    Write(files, "/sim/long", "12345", true);
    disk.faults().Arm(SimFault::kSmallFileMisdirected, 0);
    Write(files, "/sim/new", "abc", true);
    EXPECT_EQ(*files.ReadSmallFile("/sim/new"), std::string(3, '\0'));
    EXPECT_EQ(*files.ReadSmallFile("/sim/short"), "123");
    damaged += *files.ReadSmallFile("/sim/long") == "abc45";
  }
  EXPECT_GT(damaged, 10);
}

}  // namespace
}  // namespace spillway
