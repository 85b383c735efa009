#include "engine/tuning/tuned_io.h"

#include <stdlib.h>

#include <ctime>

#include "engine/config/run_config.h"
#include "gtest/gtest.h"
#include "tests/engine/estimate/profile_testing.h"

namespace spillway {
namespace {

TEST(FindTuning, OneThatCountsIsFoundForItsSetOfDevicesOnly) {
  LoadedProfile loaded;
  loaded.profile.SetTuned("259:0+259:1", TestTuning());
  const auto found =
      FindTuning(loaded, TestMachine(), {"/a", "/b"}, TestDevices(), kTestNow + kTestDay);
  ASSERT_TRUE(found.entry.has_value()) << found.why_not;
  EXPECT_EQ(found.entry->depth, 16u);
  EXPECT_EQ(found.why_not, "");
  const auto one = FindTuning(loaded, TestMachine(), {"/a"}, {TestDevices()[0]}, kTestNow);
  EXPECT_FALSE(one.entry.has_value());
  EXPECT_EQ(one.why_not, "");
}

TEST(FindTuning, AStaleOneIsNamedWithTheRemedy) {
  LoadedProfile loaded;
  loaded.profile.SetTuned("259:0+259:1", TestTuning());
  MachineIdentity machine = TestMachine();
  machine.kernel = "6.2.0";
  const auto found = FindTuning(loaded, machine, {"/a", "/b"}, TestDevices(), kTestNow);
  EXPECT_FALSE(found.entry.has_value());
  EXPECT_EQ(found.why_not,
            "the tuning of /a,/b is not used: the kernel is another (6.2.0, not 6.1.0); "
            "spillway tune --swap /a,/b renews it");
}

TEST(FindTuning, AForeignProfileIsNamedWithTheRemedy) {
  LoadedProfile loaded;
  loaded.tuned_elsewhere = {"node1", "node2"};
  const auto found = FindTuning(loaded, TestMachine(), {"/a"}, TestDevices(), kTestNow);
  EXPECT_FALSE(found.entry.has_value());
  EXPECT_EQ(found.why_not,
            "the machine's profile was made on another machine (node1, node2) and is not used on "
            "here: spillway tune --swap /a measures this one");
  // A machine with a tuning of its own needs no such line for other paths.
  loaded.profile.SetTuned("1:1", TestTuning());
  EXPECT_EQ(FindTuning(loaded, TestMachine(), {"/a"}, TestDevices(), kTestNow).why_not, "");
}

TEST(FindTuning, ABrokenProfileIsNamed) {
  LoadedProfile loaded;
  loaded.problem = "broken";
  EXPECT_EQ(FindTuning(loaded, TestMachine(), {"/a"}, TestDevices(), kTestNow).why_not, "broken");
}

TEST(ApplyTuning, SetsWhatWasNotGiven) {
  TunedEntry entry = TestTuning();
  entry.engine = "threads";
  IoEngineOptions io;
  ApplyTuning(entry, {}, &io);
  EXPECT_EQ(io.kind, IoEngineOptions::Kind::kThreads);
  EXPECT_EQ(io.block_bytes, 512u << 10);
  EXPECT_EQ(io.depth, 16u);
  EXPECT_EQ(io.threads, 8u);
  EXPECT_EQ(io.origin, "tuned");

  IoEngineOptions given;
  ApplyTuning(entry, {.kind = true, .block_bytes = true, .depth = true, .threads = true}, &given);
  EXPECT_EQ(given.kind, IoEngineOptions::Kind::kAuto);
  EXPECT_EQ(given.block_bytes, IoEngineOptions().block_bytes);
  EXPECT_EQ(given.depth, IoEngineOptions().depth);
  EXPECT_EQ(given.threads, IoEngineOptions().threads);
  EXPECT_EQ(given.origin, "");

  TunedEntry polled = TestTuning();
  polled.mode = "iopoll";
  IoEngineOptions poll;
  ApplyTuning(polled, {}, &poll);
  EXPECT_TRUE(poll.poll && !poll.sqpoll);
  polled.mode = "sqpoll";
  ApplyTuning(polled, {.kind = true}, &poll);
  EXPECT_TRUE(poll.poll && !poll.sqpoll);  // as it was
  ApplyTuning(polled, {}, &poll);
  EXPECT_TRUE(!poll.poll && poll.sqpoll);

  // io_uring may be refused later: threads do then.
  IoEngineOptions uring;
  ApplyTuning(TestTuning(), {}, &uring);
  EXPECT_EQ(uring.kind, IoEngineOptions::Kind::kAuto);
}

// A profile in a file, of this machine and the temporary folder's device.
class TuneRunConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/profile.json";
    setenv("SPILLWAY_PROFILE", path_.c_str(), 1);
    TunedEntry entry = TestTuning();
    const MachineIdentity machine = ThisMachine();
    entry.kernel = machine.kernel;
    entry.cpus = machine.cpus;
    entry.locked_memory_bytes = machine.locked_memory_bytes;
    entry.unix_seconds = time(nullptr) - 10;
    entry.devices = {{FindBlockDevice(testing::TempDir()), {3e9, 2e9, 2.5e9}}};
    MachineProfile profile;
    profile.SetTuned(entry.devices[0].device.number, entry);
    ASSERT_TRUE(SaveProfile(path_, machine, profile).ok());
    config_.train.swap_paths = {testing::TempDir()};
    config_.values = {{"io-engine", "auto", "default"}, {"lr", 1, "default"}};
  }
  void TearDown() override { setenv("SPILLWAY_PROFILE", "off", 1); }

  const ResolvedValue* Find(const std::string& name) const {
    for (const ResolvedValue& value : config_.values) {
      if (value.name == name) return &value;
    }
    return nullptr;
  }
  std::string path_;
  RunConfig config_;
};

TEST_F(TuneRunConfigTest, RecordsWhereEachValueCameFrom) {
  config_.io_given.depth = true;
  config_.train.io.depth = 3;
  TuneRunConfig(&config_);
  EXPECT_EQ(config_.train.io.block_bytes, 512u << 10);
  EXPECT_EQ(config_.train.io.depth, 3u);
  ASSERT_NE(Find("aio.block_size"), nullptr);
  EXPECT_EQ(Find("aio.block_size")->source, "tune");
  EXPECT_EQ(Find("aio.block_size")->value, 512 << 10);
  EXPECT_EQ(Find("aio.queue_depth"), nullptr);
  EXPECT_EQ(Find("io-engine")->source, "tune");
  EXPECT_EQ(Find("io-engine")->value, "io_uring");
  EXPECT_EQ(Find("lr")->source, "default");
}

TEST_F(TuneRunConfigTest, WithoutAProfileNothingChanges) {
  setenv("SPILLWAY_PROFILE", "off", 1);
  TuneRunConfig(&config_);
  EXPECT_EQ(config_.train.io.depth, IoEngineOptions().depth);
  EXPECT_EQ(config_.values.size(), 2u);
  EXPECT_TRUE(TunedPathWeights(config_.train.swap_paths).empty());
}

TEST_F(TuneRunConfigTest, PathWeightsComeFromTheSameProfile) {
  EXPECT_EQ(TunedPathWeights({testing::TempDir()}), std::vector<double>{1});
  EXPECT_EQ(TunedPathWeights({testing::TempDir(), testing::TempDir() + "/."}),
            (std::vector<double>{0.5, 0.5}));
  EXPECT_TRUE(TunedPathWeights({"/proc"}).empty());
  EXPECT_TRUE(TunedPathWeights({}).empty());
}

}  // namespace
}  // namespace spillway
