#include "engine/tuning/bench_swap.h"

#include <filesystem>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/device/slow_link_device.h"
#include "tests/device/test_device.h"

namespace spillway {
namespace {

class BenchSwapTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(testing::TempDir() + "/a");
    options_.paths = {testing::TempDir() + "/a"};
    options_.io.block_bytes = 64 << 10;
    options_.io.depth = 8;
    options_.file_bytes = 4 << 20;
    options_.seconds = 0.5;
  }
  SwapBenchOptions options_;
};

TEST_F(BenchSwapTest, MeasuresEveryLinkAndLeavesNothing) {
  for (const int workers : {1, 2}) {
    options_.workers = workers;
    const auto result = RunSwapBench(options_);
    ASSERT_TRUE(result.ok()) << result.status();
    for (const double rate :
         {result->read_alone, result->write_alone, result->read_both, result->write_both,
          result->copy.one, result->copy.all, result->copy.with_disk, result->copy.disk,
          result->checksum.one, result->checksum.all, result->checksum.with_disk,
          result->checksum.disk}) {
      EXPECT_GT(rate, 1e5);
    }
    EXPECT_TRUE(std::filesystem::is_empty(options_.paths[0]));
    const nlohmann::json json = SwapBenchJson(*result);
    EXPECT_EQ(json["nvme_to_host"]["alone"], result->read_alone);
    EXPECT_EQ(json["host_to_nvme"]["both_ways"], result->write_both);
    EXPECT_TRUE(json["host_to_device"].is_null());
    EXPECT_TRUE(json["device_to_host"].is_null());
    EXPECT_NE(json["device_note"].get<std::string>().find("same memory"), std::string::npos);
    EXPECT_EQ(json["workers"], workers);
    for (const absl::string_view line : absl::StrSplit(SwapBenchText(*result), '\n')) {
      EXPECT_LE(line.size(), 80u) << line;
    }
  }
}

TEST_F(BenchSwapTest, ADevicesLinkIsMeasuredToo) {
  TestDevice below({.most_dawdling_us = 0});
  SlowLinkDevice device(&below, {1e9, 5e8});
  options_.device = &device;
  options_.device_text = "cuda:0 (NVIDIA Test)";
  const auto result = RunSwapBench(options_);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->link.has_value());
  const nlohmann::json json = SwapBenchJson(*result);
  EXPECT_EQ(json["device"], "cuda:0 (NVIDIA Test)");
  EXPECT_TRUE(json["device_note"].is_null());
  for (const char* way : {"alone", "both_ways"}) {
    EXPECT_GT(json["host_to_device"][way].get<double>(), 1e7);
    EXPECT_LE(json["host_to_device"][way].get<double>(), 1e9);
    EXPECT_GT(json["device_to_host"][way].get<double>(), 1e7);
    EXPECT_LE(json["device_to_host"][way].get<double>(), 5e8);
  }
  const std::string text = SwapBenchText(*result);
  EXPECT_NE(text.find("cuda:0 (NVIDIA Test)"), std::string::npos) << text;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST_F(BenchSwapTest, StopsAndNamesAPathThatIsNotThere) {
  int asked = 0;
  options_.stopped = [&] { return ++asked > 2; };
  EXPECT_TRUE(absl::IsCancelled(RunSwapBench(options_).status()));
  options_.paths.push_back(testing::TempDir() + "/nowhere");
  const auto result = RunSwapBench(options_);
  EXPECT_NE(std::string(result.status().message()).find("nowhere"), std::string::npos);
}

TEST(SwapBench, WhatBindsIsTheSlowerOfDiskAndChecksums) {
  SwapBenchResult result;
  result.read_both = 2e9;
  result.write_both = 1e9;
  result.checksum.all = 2.5e9;
  EXPECT_EQ(result.Binding(), "checksum");
  result.checksum.all = 20e9;
  EXPECT_EQ(result.Binding(), "disk");
}

}  // namespace
}  // namespace spillway
