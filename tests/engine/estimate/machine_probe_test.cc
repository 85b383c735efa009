#include "engine/estimate/machine_probe.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "engine/numeric/optimizer_state.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

class MachineProbeTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/probe";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/a");
    std::filesystem::create_directories(folder_ + "/b");
  }
  bool Empty(const std::string& name) const { return std::filesystem::is_empty(folder_ + name); }

  std::string folder_;
};

TEST_F(MachineProbeTest, MeasuresEveryKindOfRateAndLeavesNothing) {
  for (auto kind : {IoEngineOptions::Kind::kAuto, IoEngineOptions::Kind::kThreads}) {
    for (uint64_t buffer : {uint64_t{1} << 20, uint64_t{8} << 20}) {
      DiskProbe probe;
      probe.paths = {folder_ + "/a", folder_ + "/b"};
      probe.io.kind = kind;
      probe.probe_bytes = 3 << 20;
      probe.buffer_bytes = buffer;
      const auto rates = MeasureDisk(probe);
      ASSERT_TRUE(rates.ok()) << rates.status();
      EXPECT_GT(rates->read_bytes_per_second, 1e5);
      EXPECT_GT(rates->write_bytes_per_second, 1e5);
      EXPECT_GT(rates->mixed_bytes_per_second, 1e5);
      EXPECT_GT(rates->processor_seconds_per_byte, 0);
      EXPECT_LT(rates->processor_seconds_per_byte, 1e-6);
      EXPECT_TRUE(Empty("/a") && Empty("/b"));
    }
  }
}

// The numbers of a run that would end by them are none of the probe's.
TEST_F(MachineProbeTest, UpdatesAreMeasuredWhateverTheOptimizerIsTold) {
  using Kind = OptimizerSpec::Kind;
  for (const OptimizerSpec& spec :
       {OptimizerSpec{.weight_decay = 1e6}, OptimizerSpec{.kind = Kind::kSgd, .momentum = 1e30},
        OptimizerSpec{.kind = Kind::kSgd, .momentum = 1e30, .nesterov = true}}) {
    const StateLayout layout({{"u", 4096}}, StatePlanes(spec, DType::kBFloat16), 2);
    EXPECT_GT(MeasureUpdates(spec, DType::kBFloat16, layout, true, 1, 1 << 20), 0);
  }
}

// Processes of two containers may have the same number and probe a path that they share.
TEST_F(MachineProbeTest, TheFileOfAnotherProcessOfTheSameNumberIsLeftAlone) {
  const std::string theirs = absl::StrCat(folder_, "/a/.spillway-probe-", getpid());
  std::ofstream(theirs) << "theirs";
  DiskProbe probe;
  probe.paths = {folder_ + "/a"};
  probe.probe_bytes = probe.buffer_bytes = 1 << 20;
  EXPECT_TRUE(MeasureDisk(probe).ok());
  EXPECT_EQ(std::filesystem::file_size(theirs), 6u);
  std::filesystem::remove(theirs);
  EXPECT_TRUE(Empty("/a"));
}

TEST_F(MachineProbeTest, APathThatIsNotThereIsAnError) {
  DiskProbe probe;
  probe.paths = {folder_ + "/c"};
  probe.probe_bytes = probe.buffer_bytes = 1 << 20;
  const auto rates = MeasureDisk(probe);
  EXPECT_FALSE(rates.ok());
  EXPECT_NE(std::string(rates.status().message()).find(folder_ + "/c"), std::string::npos);
}

TEST(MachineProbe, MovesAsMuchAsAStepWithinLimits) {
  EXPECT_EQ(ProbeBytesFor({1000, 1000}), 1u << 20);
  EXPECT_EQ(ProbeBytesFor({5 << 20, 3 << 20}), 8u << 20);
  EXPECT_EQ(ProbeBytesFor({uint64_t{1} << 40, 0}), 256u << 20);
}

TEST(MachineProbe, UpdatesHaveARateForEveryOptimizerAndDtype) {
  for (auto kind : {OptimizerSpec::Kind::kAdamW, OptimizerSpec::Kind::kSgd}) {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      OptimizerSpec spec;
      spec.kind = kind;
      const StateLayout layout({{"a", 5000}, {"b", 70000}, {"none", 0}}, StatePlanes(spec, dtype),
                               DTypeBytes(dtype), 65536);
      for (bool in_store : {false, true}) {
        EXPECT_GT(MeasureUpdates(spec, dtype, layout, in_store, 2, 4 << 20), 1e6);
      }
    }
  }
}

TEST(MachineProbe, ChecksAndCopiesHaveARateInLittleMemoryToo) {
  for (uint64_t memory : {uint64_t{1}, uint64_t{16} << 20}) {
    const CheckRates rates = MeasureChecks(2, memory);
    EXPECT_GT(rates.check_bytes_per_second, 1e6);
    EXPECT_GT(rates.copy_bytes_per_second, 1e6);
  }
}

}  // namespace
}  // namespace spillway
