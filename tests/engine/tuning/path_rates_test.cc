#include "engine/tuning/path_rates.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

TEST(PathRates, PathsOnOneDeviceShareIt) {
  BlockDevice fast, slow;
  fast.number = "259:0";
  slow.number = "8:0";
  EXPECT_EQ(ShareDevices({fast, slow, fast}, {4e9, 1e9, 4e9}),
            (std::vector<double>{2e9, 1e9, 2e9}));
}

// The disk of the tests and the memory below /dev/shm: two devices of any machine.
class PathRatesHere : public testing::Test {
 protected:
  void SetUp() override {
    struct stat disk, memory;
    shared_ = absl::StrCat("/dev/shm/spillway-path-rates-", getpid());
    std::error_code error;
    std::filesystem::create_directories(disk_, error);
    std::filesystem::create_directory(shared_, error);
    if (error || stat(disk_.c_str(), &disk) != 0 || stat(shared_.c_str(), &memory) != 0 ||
        disk.st_dev == memory.st_dev) {
      GTEST_SKIP() << "no second file system here to write to";
    }
    setenv("SPILLWAY_PROFILE", (disk_ + "/profile.json").c_str(), 1);
  }
  void TearDown() override {
    setenv("SPILLWAY_PROFILE", "off", 1);
    std::error_code error;
    std::filesystem::remove_all(shared_, error);
  }

  std::string disk_ = testing::TempDir() + "/path_rates";
  std::string shared_;
};

TEST_F(PathRatesHere, TwoDevicesAreMeasuredOnceAndRemembered) {
  const std::vector<double> rates = SwapPathRates({disk_, shared_}, {}, 8 * kMiB, 4 * kMiB);
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_GT(rates[0], 0);
  EXPECT_GT(rates[1], 0);
  EXPECT_EQ(SwapPathRates({disk_, shared_}, {}, 8 * kMiB, 4 * kMiB), rates);
  EXPECT_EQ(SwapPathRates({shared_, disk_}, {}, 8 * kMiB, 4 * kMiB),
            (std::vector<double>{rates[1], rates[0]}));
  // Nothing of the measuring is left.
  EXPECT_TRUE(std::filesystem::is_empty(shared_));
}

TEST_F(PathRatesHere, NothingToTellApartIsNotMeasured) {
  EXPECT_TRUE(SwapPathRates({disk_}, {}, kMiB, kMiB).empty());
  std::filesystem::create_directory(disk_ + "/a");
  EXPECT_TRUE(SwapPathRates({disk_, disk_ + "/a"}, {}, kMiB, kMiB).empty());
  EXPECT_FALSE(std::filesystem::exists(disk_ + "/profile.json"));
  setenv("SPILLWAY_PROFILE", "off", 1);
  EXPECT_TRUE(SwapPathRates({disk_, shared_}, {}, kMiB, kMiB).empty());
}

TEST_F(PathRatesHere, APathThatCannotBeMeasuredIsSaidAndAllAreAlike) {
  std::filesystem::remove_all(shared_);
  EXPECT_TRUE(SwapPathRates({disk_, shared_}, {}, kMiB, kMiB).empty());
}

}  // namespace
}  // namespace spillway
