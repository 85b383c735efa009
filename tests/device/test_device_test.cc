#include "tests/device/test_device.h"

#include "tests/device/device_suite.h"

namespace spillway {
namespace {

INSTANTIATE_TEST_SUITE_P(TestDevice, DeviceConformance,
                         testing::ValuesIn(SeededBeds([](uint64_t seed) {
                           return MakeBed(
                               std::make_unique<TestDevice>(TestDeviceOptions{.seed = seed}));
                         })),
                         BedName);

}  // namespace
}  // namespace spillway
