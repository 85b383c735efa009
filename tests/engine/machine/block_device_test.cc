#include "engine/machine/block_device.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "engine/machine/probe_path.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

TEST(BlockDevice, TheDeviceBelowAPathHasTheKernelsNumber) {
  const std::string path = testing::TempDir();
  const BlockDevice device = FindBlockDevice(path);
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  const std::string number = absl::StrCat(major(info.st_dev), ":", minor(info.st_dev));
  if (!std::filesystem::exists("/sys/dev/block/" + number)) {
    GTEST_SKIP() << "the temporary folder is on no block device";
  }
  EXPECT_EQ(device.number, number);
  EXPECT_FALSE(device.name.empty());
  EXPECT_EQ(device.size_bytes % 512, 0u);
  EXPECT_GT(device.size_bytes, 1u << 20);
  EXPECT_EQ(device.filesystem, FindMount(path).filesystem);
}

TEST(BlockDevice, PathsOnOneDeviceAreOneAndAnotherFileSystemIsAnother) {
  const std::string path = testing::TempDir();
  std::filesystem::create_directories(path + "/below");
  std::filesystem::create_directory_symlink(path + "/below", path + "/link");
  EXPECT_EQ(FindBlockDevice(path), FindBlockDevice(path + "/below"));
  EXPECT_EQ(FindBlockDevice(path), FindBlockDevice(path + "/link"));
  const BlockDevice proc = FindBlockDevice("/proc");
  EXPECT_EQ(proc.filesystem, "proc");
  EXPECT_NE(proc.number, FindBlockDevice(path).number);
  EXPECT_EQ(proc.serial + proc.model, "");
}

TEST(BlockDevice, WhatIsNotThereHasNoDevice) {
  EXPECT_EQ(FindBlockDevice(testing::TempDir() + "/nowhere"), BlockDevice());
  EXPECT_EQ(FindMount(testing::TempDir() + "/nowhere").filesystem, "");
}

TEST(BlockDevice, TheProbeOfAPathSeesTheSameMount) {
  const std::string path = testing::TempDir();
  EXPECT_EQ(ProbePath(path).filesystem, FindMount(path).filesystem);
  EXPECT_EQ(ProbePath(path).source, FindMount(path).source);
}

}  // namespace
}  // namespace spillway
