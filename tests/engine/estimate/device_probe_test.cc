#include "engine/estimate/device_probe.h"

#include "engine/numeric/optimizer_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/device/slow_link_device.h"
#include "tests/device/test_device.h"
#include "tests/engine/cuda/emulated_kernels.h"

namespace spillway {
namespace {

// Within what a machine with other work beside it makes of a sleep; no link is faster than it is.
TEST(DeviceProbe, MeasuresEachWayOfTheLink) {
  TestDevice below({.most_dawdling_us = 0});
  SlowLinkDevice device(&below, {4e8, 1e8});
  const auto link = MeasureLink(device, 4 << 20);
  ASSERT_TRUE(link.ok()) << link.status();
  for (const LinkRates& rates : {link->alone, link->both_ways}) {
    EXPECT_LE(rates.to_device_bytes_per_second, 4e8);
    EXPECT_LE(rates.to_host_bytes_per_second, 1e8);
    EXPECT_GT(rates.to_device_bytes_per_second, 0.5e8);
    EXPECT_GT(rates.to_host_bytes_per_second, 0.2e8);
  }
  EXPECT_GT(link->alone.to_device_bytes_per_second, 1.2 * link->alone.to_host_bytes_per_second);
}

TEST(DeviceProbe, TakesAsMuchMemoryAsItIsGivenAndGivesItBack) {
  constexpr uint64_t kBytes = 256 << 10;
  TestDevice device({.memory_bytes = kBytes});
  EXPECT_TRUE(MeasureLink(device, kBytes).ok());
  EXPECT_TRUE(MeasureLink(device, kBytes).ok());
  TestDevice small({.memory_bytes = kBytes - 1});
  EXPECT_EQ(MeasureLink(small, kBytes).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(DeviceProbe, ABrokenDeviceIsAnError) {
  TestDevice device({});
  device.Launch(StreamId::kCompute, [](void*) { return absl::InternalError("the fan fell off"); });
  device.Synchronize().IgnoreError();
  EXPECT_THAT(std::string(MeasureLink(device, 1 << 20).status().message()),
              testing::HasSubstr("the fan fell off"));
}

TEST(DeviceProbe, UpdatesHaveARateForEveryOptimizerAndDtype) {
  using Kind = OptimizerSpec::Kind;
  TestDevice device({.native_stream = EmulatedStream()});
  for (auto kind : {Kind::kAdamW, Kind::kSgd, Kind::kLion, Kind::kLamb, Kind::kAdafactor}) {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      OptimizerSpec spec;
      spec.kind = kind;
      const StateLayout layout({{"a", 5000}, {"b", 70000}, {"none", 0}}, StatePlanes(spec, dtype),
                               DTypeBytes(dtype), 65536);
      for (uint64_t memory_bytes : {1 << 16, 1 << 24}) {
        const auto rate = MeasureDeviceUpdates(device, spec, dtype, layout, memory_bytes);
        ASSERT_TRUE(rate.ok()) << rate.status();
        EXPECT_GT(*rate, 1e6);
      }
    }
  }
}

}  // namespace
}  // namespace spillway
