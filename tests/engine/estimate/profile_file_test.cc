#include "engine/estimate/profile_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/engine/estimate/profile_testing.h"

namespace spillway {
namespace {

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

MachineProfile Rates(const std::string& device, int64_t when = kTestNow) {
  MachineProfile profile;
  profile.SetRates(device, {{3e9, 2e9, 2.5e9, 1e-10}, 1 << 26, when});
  return profile;
}

class ProfileFile : public testing::Test {
 protected:
  void Write(const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
    std::ofstream(path_) << text;
  }
  std::string Text() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  bool Has(const std::string& device) const {
    return LoadProfile(path_, TestMachine()).profile.FindRates(device, 1, kTestNow).has_value();
  }
  absl::Status Save(const MachineProfile& profile) {
    return SaveProfile(path_, TestMachine(), profile, kTestNow + kTestDay);
  }

  const std::string path_ = testing::TempDir() + "/below/profile.json";
};

TEST_F(ProfileFile, IsMadeWithItsFolderAndForItsOwnerAlone) {
  EXPECT_FALSE(Has("d"));
  EXPECT_EQ(LoadProfile(path_, TestMachine()).problem, "");
  ASSERT_TRUE(Save(Rates("d")).ok());
  EXPECT_TRUE(Has("d"));
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(ProfileFile, ABrokenOneIsNamedTreatedAsNoneAndReplaced) {
  ASSERT_TRUE(Save(Rates("d")).ok());
  const std::string good = Text();
  for (const std::string& text :
       {good.substr(0, good.size() / 2), std::string("[]"), std::string(""),
        std::string("{\"version\": \"2\"}"), std::string("{\"version\": 2, \"machines\": 3}"),
        std::string(5 << 20, ' ')}) {
    Write(text);
    const LoadedProfile loaded = LoadProfile(path_, TestMachine());
    EXPECT_TRUE(loaded.profile.empty());
    EXPECT_NE(loaded.problem.find(path_ + " is broken"), std::string::npos) << loaded.problem;
    ASSERT_TRUE(Save(Rates("d")).ok());
    EXPECT_TRUE(Has("d"));
  }
}

TEST_F(ProfileFile, OneOfAbsurdDepthIsBrokenLikeAnyOther) {
  Write(absl::StrCat(R"({"version": 2, "machines": {"x": )", std::string(500000, '['),
                     std::string(500000, ']'), "}}"));
  EXPECT_NE(LoadProfile(path_, TestMachine()).problem, "");
  ASSERT_TRUE(Save(Rates("8:0")).ok());
  EXPECT_TRUE(Has("8:0"));
}

TEST_F(ProfileFile, AnOlderVersionIsMeasuredAgainAndANewerOneLeftAlone) {
  Write("{\"version\": 1, \"host\": \"here\", \"disks\": {\"d\": {}}}");
  EXPECT_EQ(LoadProfile(path_, TestMachine()).problem, "");
  ASSERT_TRUE(Save(Rates("d")).ok());
  EXPECT_TRUE(Has("d"));

  const std::string newer = "{\"version\": 3, \"anything\": true}";
  Write(newer);
  EXPECT_NE(LoadProfile(path_, TestMachine()).problem.find("newer Spillway"), std::string::npos);
  EXPECT_TRUE(absl::IsFailedPrecondition(Save(Rates("d"))));
  EXPECT_EQ(Text(), newer);
}

TEST_F(ProfileFile, EachMachineReadsItsOwnPart) {
  MachineIdentity other = TestMachine();
  other.key = "other";
  other.host = "there";
  MachineProfile tuned = Rates("d");
  tuned.SetTuned("259:0+259:1", TestTuning());
  ASSERT_TRUE(SaveProfile(path_, other, tuned).ok());
  const LoadedProfile mine = LoadProfile(path_, TestMachine());
  EXPECT_TRUE(mine.profile.empty());
  EXPECT_EQ(mine.tuned_elsewhere, std::vector<std::string>{"there"});
  ASSERT_TRUE(Save(Rates("e")).ok());
  EXPECT_TRUE(Has("e"));
  EXPECT_FALSE(Has("d"));
  EXPECT_TRUE(LoadProfile(path_, other).profile.FindTuned("259:0+259:1") != nullptr);
}

TEST_F(ProfileFile, SavingKeepsWhatOthersPutThereAndTheNewerOfTwo) {
  ASSERT_TRUE(Save(Rates("a", kTestNow)).ok());
  MachineProfile tuned;
  tuned.SetTuned("259:0", TestTuning());
  ASSERT_TRUE(Save(tuned).ok());
  MachineProfile older = Rates("a", kTestNow - 5);
  ASSERT_TRUE(Save(older).ok());
  const MachineProfile found = LoadProfile(path_, TestMachine()).profile;
  EXPECT_EQ(found.FindRates("a", 1, kTestNow)->unix_seconds, kTestNow);
  EXPECT_NE(found.FindTuned("259:0"), nullptr);
  // Members of the same version that this program does not know stay.
  nlohmann::json value = nlohmann::json::parse(Text());
  value["machines"]["key"]["later"] = 7;
  Write(value.dump());
  ASSERT_TRUE(Save(Rates("b")).ok());
  EXPECT_EQ(nlohmann::json::parse(Text())["machines"]["key"]["later"], 7);
  EXPECT_TRUE(Has("a"));
}

// A clock was wrong when it was made: it gives way to what is made now, and to others.
TEST_F(ProfileFile, OneOfTheFutureIsOlderThanAnyOther) {
  const int64_t future = kTestNow + 100 * kTestDay;
  ASSERT_TRUE(Save(Rates("a", future)).ok());
  ASSERT_TRUE(Save(Rates("a", kTestNow)).ok());
  EXPECT_EQ(LoadProfile(path_, TestMachine()).profile.FindRates("a", 1, kTestNow)->unix_seconds,
            kTestNow);
  ASSERT_TRUE(Save(Rates("b", future)).ok());
  MachineProfile many;
  for (int i = 0; i < 64; ++i) {
    many.SetRates(absl::StrCat("d", i), {{3e9, 2e9, 2.5e9, 1e-10}, 1 << 26, kTestNow});
  }
  ASSERT_TRUE(Save(many).ok());
  EXPECT_FALSE(LoadProfile(path_, TestMachine()).profile.FindRates("b", 1, future).has_value());
}

TEST_F(ProfileFile, ALinkIsFollowedAndStaysOne) {
  const std::string target = path_ + ".target";
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
  std::filesystem::remove(path_);
  std::ofstream(target) << R"({"version": 2, "machines": {}})";
  std::filesystem::create_symlink(target, path_);
  ASSERT_TRUE(Save(Rates("d")).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_TRUE(LoadProfile(target, TestMachine()).profile.FindRates("d", 1, kTestNow).has_value());
  std::filesystem::remove(path_);
}

TEST_F(ProfileFile, SaversAtTheSameTimeLoseNothing) {
  std::vector<std::thread> savers;
  for (int i = 0; i < 8; ++i) {
    savers.emplace_back([this, i] {
      for (int k = 0; k < 4; ++k) EXPECT_TRUE(Save(Rates(absl::StrCat("d", i, "-", k))).ok());
    });
  }
  for (std::thread& saver : savers) saver.join();
  for (int i = 0; i < 8; ++i) {
    for (int k = 0; k < 4; ++k) EXPECT_TRUE(Has(absl::StrCat("d", i, "-", k))) << i << " " << k;
  }
}

TEST_F(ProfileFile, ALockThatIsNeverGivenBackDoesNotStopIt) {
  ASSERT_TRUE(Save(Rates("a")).ok());
  const int fd = open((path_ + ".lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  EXPECT_TRUE(Save(Rates("b")).ok());
  EXPECT_TRUE(Has("b"));
  close(fd);
}

TEST_F(ProfileFile, DoesNotGrowForEver) {
  MachineProfile many;
  for (int i = 0; i < 100; ++i) {
    many.SetRates(absl::StrCat("d", i), {{3e9, 2e9, 2.5e9, 1e-10}, 1 << 26, kTestNow + i});
  }
  ASSERT_TRUE(Save(many).ok());
  const auto profile = LoadProfile(path_, TestMachine()).profile;
  EXPECT_TRUE(profile.FindRates("d99", 1, kTestNow + 100).has_value());
  EXPECT_TRUE(profile.FindRates("d36", 1, kTestNow + 100).has_value());
  EXPECT_FALSE(profile.FindRates("d35", 1, kTestNow + 100).has_value());
}

TEST_F(ProfileFile, APlaceThatCanNotBeWrittenIsAnErrorThatNamesIt) {
  const absl::Status status = SaveProfile("/proc/nowhere/profile.json", TestMachine(), Rates("d"));
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find("/proc/nowhere"), std::string::npos);
  EXPECT_FALSE(SaveProfile("", TestMachine(), Rates("d")).ok());
  EXPECT_TRUE(LoadProfile("", TestMachine()).profile.empty());
}

TEST(ProfilePlace, ComesFromTheEnvironment) {
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

TEST(ProfilePlace, WhatIsNoRegularFileIsOffAndStays) {
  for (const std::string& path : {std::string("/dev/null"), testing::TempDir()}) {
    Variable said("SPILLWAY_PROFILE", path.c_str());
    EXPECT_TRUE(FindProfile().off);
    EXPECT_EQ(FindProfile().path, "");
    EXPECT_TRUE(absl::IsInvalidArgument(SaveProfile(path, TestMachine(), Rates("d"))));
  }
}

}  // namespace
}  // namespace spillway
