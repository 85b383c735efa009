#include "engine/estimate/machine_profile.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace spillway {
namespace {

constexpr int64_t kDay = 24 * 3600;
constexpr int64_t kNow = 1800000000;
const DiskEntry kEntry = {{3e9, 2e9, 2.5e9}, 1 << 26, kNow};

// The environment as it was, afterwards.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* old = getenv(name);
    had_ = old != nullptr;
    if (had_) old_ = old;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~Variable() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* const name_;
  bool had_;
  std::string old_;
};

TEST(MachineProfile, KeepsWhatItWasGiven) {
  MachineProfile profile("here");
  profile.Set("259:0", kEntry);
  profile.Set("259:1", {{1, 2, 3}, 5, kNow});
  const MachineProfile read = MachineProfile::FromJson(profile.ToJson(), "here");
  const auto found = read.Find("259:0", 1 << 26, kNow + kDay);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rates.read_bytes_per_second, 3e9);
  EXPECT_EQ(found->rates.write_bytes_per_second, 2e9);
  EXPECT_EQ(found->rates.mixed_bytes_per_second, 2.5e9);
  EXPECT_TRUE(read.Find("259:1", 5, kNow).has_value());
  EXPECT_FALSE(read.Find("259:2", 1, kNow).has_value());
}

TEST(MachineProfile, StaleForeignAndSmallerEntriesDoNotCount) {
  MachineProfile profile("here");
  profile.Set("d", kEntry);
  EXPECT_TRUE(profile.Find("d", 1, kNow + 30 * kDay).has_value());
  EXPECT_FALSE(profile.Find("d", 1, kNow + 30 * kDay + 1).has_value());
  EXPECT_FALSE(profile.Find("d", 1, kNow - 1).has_value());  // of the future
  EXPECT_FALSE(profile.Find("d", (1 << 26) + 1, kNow).has_value());
  EXPECT_FALSE(MachineProfile::FromJson(profile.ToJson(), "there").Find("d", 1, kNow).has_value());
}

TEST(MachineProfile, WhatIsNoProfileIsEmpty) {
  MachineProfile profile("here");
  profile.Set("d", kEntry);
  const auto good = profile.ToJson();
  const auto empty = [](const nlohmann::json& json) {
    return !MachineProfile::FromJson(json, "here").Find("d", 1, kNow).has_value();
  };
  ASSERT_FALSE(empty(good));
  auto bad = good;
  bad["version"] = 2;
  EXPECT_TRUE(empty(bad));
  for (const char* key : {"read_bytes_per_second", "write_bytes_per_second",
                          "mixed_bytes_per_second", "probe_bytes", "unix_seconds"}) {
    for (const nlohmann::json& value :
         {nlohmann::json("fast"), nlohmann::json(-1), nlohmann::json(0), nlohmann::json(nullptr)}) {
      bad = good;
      bad["disks"]["d"][key] = value;
      EXPECT_TRUE(empty(bad)) << key << value;
    }
  }
  bad = good;
  bad["disks"] = {1, 2};
  EXPECT_TRUE(empty(bad));
  EXPECT_TRUE(empty(nullptr));
  EXPECT_TRUE(empty(nlohmann::json::parse("{broken", nullptr, false)));
}

TEST(MachineProfile, IsKeptInAFileAndABrokenFileIsReplaced) {
  const std::string path = testing::TempDir() + "/profile/below/profile.json";
  std::filesystem::remove_all(testing::TempDir() + "/profile");
  MachineProfile profile = LoadProfile(path);
  EXPECT_FALSE(profile.Find("d", 1, kNow).has_value());
  profile.Set("d", kEntry);
  SaveProfile(path, profile);
  EXPECT_TRUE(LoadProfile(path).Find("d", 1, kNow).has_value());
  std::ofstream(path) << "{\"version\": 1, \"dis";
  EXPECT_FALSE(LoadProfile(path).Find("d", 1, kNow).has_value());
  SaveProfile(path, profile);
  EXPECT_TRUE(LoadProfile(path).Find("d", 1, kNow).has_value());
  SaveProfile("/proc/nowhere/profile.json", profile);  // no error, and no file
  SaveProfile("", profile);
}

TEST(MachineProfile, ThePlaceComesFromTheEnvironment) {
  Variable said("SPILLWAY_PROFILE", nullptr), cache("XDG_CACHE_HOME", nullptr);
  Variable home("HOME", "/users/somebody");
  EXPECT_EQ(FindProfile().path, "/users/somebody/.cache/spillway/profile.json");
  Variable relative("XDG_CACHE_HOME", "not/absolute");
  EXPECT_EQ(FindProfile().path, "/users/somebody/.cache/spillway/profile.json");
  Variable absolute("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(FindProfile().path, "/cache/spillway/profile.json");
  Variable file("SPILLWAY_PROFILE", "p.json");
  EXPECT_EQ(FindProfile().path, "p.json");
  EXPECT_FALSE(FindProfile().off);
  Variable off("SPILLWAY_PROFILE", "off");
  EXPECT_TRUE(FindProfile().off);
}

TEST(MachineProfile, OneDeviceBehindSeveralPathsIsOneKey) {
  const std::string here = testing::TempDir();
  EXPECT_EQ(DeviceKey({here, here + "/."}, "threads"), DeviceKey({here}, "threads"));
  EXPECT_NE(DeviceKey({here}, "io_uring"), DeviceKey({here}, "threads"));
  EXPECT_NE(DeviceKey({here, "/proc"}, "threads"), DeviceKey({here}, "threads"));
}

}  // namespace
}  // namespace spillway
