#include "engine/estimate/machine_profile.h"

#include "gtest/gtest.h"
#include "tests/engine/estimate/profile_testing.h"

namespace spillway {
namespace {

const DiskEntry kEntry = {{3e9, 2e9, 2.5e9, 1e-10}, 1 << 26, kTestNow};

TEST(MachineProfile, KeepsWhatItWasGiven) {
  MachineProfile profile;
  profile.SetRates("259:0", kEntry);
  profile.SetRates("259:1", {{1, 2, 3, 1}, 5, kTestNow});
  profile.SetTuned("259:0+259:1", TestTuning());
  const MachineProfile read = MachineProfile::FromJson(profile.ToJson());
  const auto found = read.FindRates("259:0", 1 << 26, kTestNow + kTestDay);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rates, kEntry.rates);
  EXPECT_TRUE(read.FindRates("259:1", 5, kTestNow).has_value());
  EXPECT_FALSE(read.FindRates("259:2", 1, kTestNow).has_value());
  ASSERT_NE(read.FindTuned("259:0+259:1"), nullptr);
  EXPECT_EQ(*read.FindTuned("259:0+259:1"), TestTuning());
  EXPECT_EQ(read.FindTuned("259:0"), nullptr);

  TunedEntry unlimited = TestTuning();
  unlimited.locked_memory_bytes = UINT64_MAX;
  profile.SetTuned("d", unlimited);
  EXPECT_EQ(*MachineProfile::FromJson(profile.ToJson()).FindTuned("d"), unlimited);
}

TEST(MachineProfile, StaleAndSmallerRatesDoNotCount) {
  MachineProfile profile;
  profile.SetRates("d", kEntry);
  EXPECT_TRUE(profile.FindRates("d", 1, kTestNow + 30 * kTestDay).has_value());
  EXPECT_FALSE(profile.FindRates("d", 1, kTestNow + 30 * kTestDay + 1).has_value());
  EXPECT_FALSE(profile.FindRates("d", 1, kTestNow - 1).has_value());  // of the future
  EXPECT_FALSE(profile.FindRates("d", (1 << 26) + 1, kTestNow).has_value());
}

// Each value of each entry, broken in several ways.
TEST(MachineProfile, EntriesThatAreNotWholeAreLeftOut) {
  MachineProfile profile;
  profile.SetRates("d", kEntry);
  profile.SetTuned("t", TestTuning());
  const nlohmann::json good = profile.ToJson();
  const std::vector<nlohmann::json> wrong = {"fast", -1, 0, nlohmann::json::object(), 1e300};
  for (const auto& [key, value] : good["disks"]["d"].items()) {
    for (const auto& other : wrong) {
      if (other == 1e300 && key.find("per_second") != key.npos) continue;  // a rate, if a high one
      auto bad = good;
      bad["disks"]["d"][key] = other;
      EXPECT_FALSE(MachineProfile::FromJson(bad).FindRates("d", 1, kTestNow).has_value())
          << key << other;
    }
    auto bad = good;
    bad["disks"]["d"].erase(key);
    EXPECT_FALSE(MachineProfile::FromJson(bad).FindRates("d", 1, kTestNow).has_value()) << key;
  }
  for (const char* key : {"engine", "block_bytes", "depth", "threads", "cpus", "unix_seconds",
                          "devices", "read_bytes_per_second", "locked_memory_bytes"}) {
    auto bad = good;
    bad["tuned"]["t"].erase(key);
    EXPECT_EQ(MachineProfile::FromJson(bad).FindTuned("t"), nullptr) << key;
  }
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, nlohmann::json>>{{"engine", "aio"},
                                                           {"block_bytes", 1000},
                                                           {"block_bytes", 1u << 31},
                                                           {"depth", 5000},
                                                           {"threads", 1000},
                                                           {"devices", {1}},
                                                           {"devices", nlohmann::json::array()}}) {
    auto bad = good;
    bad["tuned"]["t"][key] = value;
    EXPECT_EQ(MachineProfile::FromJson(bad).FindTuned("t"), nullptr) << key << value;
  }
  for (const auto& nothing : {nlohmann::json(nullptr), nlohmann::json({1, 2}),
                              nlohmann::json{{"disks", 5}, {"tuned", {1}}}}) {
    EXPECT_TRUE(MachineProfile::FromJson(nothing).empty());
  }
}

TEST(MachineProfile, LinksAreKeptByDeviceForThirtyDays) {
  MachineProfile profile;
  EXPECT_TRUE(profile.empty());
  profile.SetLink("NVIDIA H200 (device 0)", {{5e10, 4e10}, kTestNow});
  EXPECT_FALSE(profile.empty());
  const nlohmann::json good = profile.ToJson();
  const MachineProfile read = MachineProfile::FromJson(good);
  const auto found = read.FindLink("NVIDIA H200 (device 0)", kTestNow + 30 * kTestDay);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*found, (LinkRates{5e10, 4e10}));
  EXPECT_FALSE(read.FindLink("NVIDIA H200 (device 0)", kTestNow + 30 * kTestDay + 1).has_value());
  EXPECT_FALSE(read.FindLink("NVIDIA H200 (device 0)", kTestNow - 1).has_value());
  EXPECT_FALSE(read.FindLink("NVIDIA H200 (device 1)", kTestNow).has_value());
  for (const auto& [key, value] : good["links"]["NVIDIA H200 (device 0)"].items()) {
    for (const nlohmann::json& other :
         std::vector<nlohmann::json>{"fast", -1, 0, nlohmann::json::object()}) {
      auto bad = good;
      bad["links"]["NVIDIA H200 (device 0)"][key] = other;
      EXPECT_TRUE(MachineProfile::FromJson(bad).empty()) << key << other;
    }
    auto bad = good;
    bad["links"]["NVIDIA H200 (device 0)"].erase(key);
    EXPECT_TRUE(MachineProfile::FromJson(bad).empty()) << key;
  }
}

TEST(MachineProfile, ProductsAreKeptByTheirKeyForThirtyDays) {
  MachineProfile profile;
  profile.SetProducts("a processor, 2 x 4x8x8", {0.5, 0.25, kTestNow});
  EXPECT_FALSE(profile.empty());
  const nlohmann::json good = profile.ToJson();
  const MachineProfile read = MachineProfile::FromJson(good);
  const auto found = read.FindProducts("a processor, 2 x 4x8x8", kTestNow + 30 * kTestDay);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->own_seconds, 0.5);
  EXPECT_EQ(found->fp32_seconds, 0.25);
  EXPECT_FALSE(read.FindProducts("a processor, 2 x 4x8x8", kTestNow + 31 * kTestDay).has_value());
  EXPECT_FALSE(read.FindProducts("a processor, 4 x 4x8x8", kTestNow).has_value());
  for (const char* key : {"own_seconds", "fp32_seconds", "unix_seconds"}) {
    for (const nlohmann::json& other : std::vector<nlohmann::json>{"fast", -1, 0, nullptr}) {
      auto bad = good;
      bad["products"]["a processor, 2 x 4x8x8"][key] = other;
      EXPECT_TRUE(MachineProfile::FromJson(bad).empty()) << key << other;
    }
  }
}

TEST(MachineProfile, ExchangesAreKeptByTheirRanksForThirtyDays) {
  GradientSumOptions sums;
  sums.grid = {4, 2, 1};
  EXPECT_EQ(CollectiveKey(sums, 1), "4 ranks in groups of 2 on 1 machine, fp32");
  EXPECT_EQ(CollectiveKey(sums, 1, true), "4 ranks in groups of 2 on 1 machine, fp32, GPUs");
  sums.format = ExchangeFormat::kBFloat16;
  const std::string key = CollectiveKey(sums, 2);
  EXPECT_EQ(key, "4 ranks in groups of 2 on 2 machines, bf16");
  MachineProfile profile;
  profile.SetCollective(key, {{3e9, 1e9, 2e-5}, kTestNow});
  EXPECT_FALSE(profile.empty());
  const nlohmann::json good = profile.ToJson();
  const MachineProfile read = MachineProfile::FromJson(good);
  const auto found = read.FindCollective(key, kTestNow + 30 * kTestDay);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*found, (CollectiveRates{3e9, 1e9, 2e-5}));
  EXPECT_FALSE(read.FindCollective(key, kTestNow + 30 * kTestDay + 1).has_value());
  EXPECT_FALSE(read.FindCollective(CollectiveKey(sums, 1), kTestNow).has_value());
  for (const auto& [name, value] : good["collectives"][key].items()) {
    for (const nlohmann::json& other :
         std::vector<nlohmann::json>{"fast", -1, 0, nlohmann::json::object()}) {
      auto bad = good;
      bad["collectives"][key][name] = other;
      EXPECT_TRUE(MachineProfile::FromJson(bad).empty()) << name << other;
    }
    auto bad = good;
    bad["collectives"][key].erase(name);
    EXPECT_TRUE(MachineProfile::FromJson(bad).empty()) << name;
  }
  // Nothing is gathered where every rank has all weights.
  profile.SetCollective(key, {{0, 1e9, 2e-5}, kTestNow});
  const auto none = MachineProfile::FromJson(profile.ToJson()).FindCollective(key, kTestNow);
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(none->gather_bytes_per_second, 0);
}

class Stale : public testing::Test {
 protected:
  std::string Reason(int64_t now = kTestNow + kTestDay) const {
    return StaleReason(TestTuning(), machine_, devices_, now);
  }
  void ExpectWord(const std::string& reason, const std::string& word) {
    EXPECT_NE(reason.find(word), std::string::npos) << reason;
  }
  MachineIdentity machine_ = TestMachine();
  std::vector<BlockDevice> devices_ = TestDevices();
};

TEST_F(Stale, NothingIsWhereAllIsAsItWas) {
  EXPECT_EQ(Reason(), "");
  devices_[0].name = "nvme7n1";  // the same disk by another name
  machine_.host = "renamed";     // whose part of the file this is was decided before
  EXPECT_EQ(Reason(), "");
}

TEST_F(Stale, Age) {
  EXPECT_EQ(Reason(kTestNow + 30 * kTestDay), "");
  EXPECT_EQ(Reason(kTestNow + 41 * kTestDay), "it is 41 days old, and 30 is the most that counts");
  ExpectWord(Reason(kTestNow - 1), "future");
}

TEST_F(Stale, Kernel) {
  machine_.kernel = "6.2.0";
  EXPECT_EQ(Reason(), "the kernel is another (6.2.0, not 6.1.0)");
}

TEST_F(Stale, Cpus) {
  machine_.cpus = 2;
  EXPECT_EQ(Reason(), "this process may use 2 CPUs, not 4");
}

TEST_F(Stale, LockedMemory) {
  machine_.locked_memory_bytes = UINT64_MAX;
  EXPECT_EQ(Reason(), "the limit of locked memory is another (unlimited, not 8 MiB)");
}

TEST_F(Stale, AnotherDiskUnderTheSameNumber) {
  devices_[1].serial = "S9";
  EXPECT_EQ(Reason(), "disk nvme1n1 has another serial number (S9, not S2)");
  devices_ = TestDevices();
  devices_[1].serial = "";
  ExpectWord(Reason(), "(not told, not S2)");
  devices_ = TestDevices();
  devices_[0].model = "Other";
  ExpectWord(Reason(), "another model");
  devices_ = TestDevices();
  devices_[0].size_bytes *= 2;
  ExpectWord(Reason(), "another size");
  devices_ = TestDevices();
  devices_[0].filesystem = "btrfs";
  EXPECT_EQ(Reason(), "disk nvme0n1p1 has another file system (btrfs, not ext4)");
  devices_ = TestDevices();
  devices_[0].number = "8:0";
  EXPECT_EQ(Reason(), "disk 8:0 was not part of it");
}

TEST(PathWeights, GoByTheMixedRateOfEachDeviceAlone) {
  const auto devices = TestDevices();
  EXPECT_EQ(PathWeights(TestTuning(), devices), (std::vector<double>{0.75, 0.25}));
  EXPECT_EQ(PathWeights(TestTuning(), {devices[1], devices[0]}), (std::vector<double>{0.25, 0.75}));
  // Two paths on the fast disk share it.
  EXPECT_EQ(PathWeights(TestTuning(), {devices[0], devices[1], devices[0]}),
            (std::vector<double>{0.375, 0.25, 0.375}));
  BlockDevice other = devices[0];
  other.number = "8:0";
  EXPECT_TRUE(PathWeights(TestTuning(), {devices[0], other}).empty());
}

TEST(DeviceKey, NamesEachDeviceOnceInAnyOrder) {
  const auto devices = TestDevices();
  EXPECT_EQ(DeviceKey(devices), "259:0+259:1");
  EXPECT_EQ(DeviceKey({devices[1], devices[0], devices[1]}), "259:0+259:1");
  EXPECT_EQ(DeviceKey({devices[0]}, "threads"), "259:0 threads");
}

TEST(ThisMachine, IsTheSameEachTimeAndTellsNoMachineId) {
  const MachineIdentity machine = ThisMachine();
  EXPECT_EQ(machine.key, ThisMachine().key);
  EXPECT_EQ(machine.key.size(), 16u);
  EXPECT_GE(machine.cpus, 1);
  EXPECT_FALSE(machine.kernel.empty());
}

}  // namespace
}  // namespace spillway
