// The suite that every device passes (swap/device/device.h). One joins with a test file of its own:
//
//   #include "tests/device/device_suite.h"
//
//   namespace spillway {
//   INSTANTIATE_TEST_SUITE_P(TestDevice, DeviceConformance,
//                            testing::ValuesIn(SeededBeds([](uint64_t seed) {
//                              return MakeBed(std::make_unique<TestDevice>(seed));
//                            })),
//                            BedName);
//   }  // namespace spillway
//
// A device that calls a kernel at once with its native stream (CUDA) brings a bed of its own,
// derived from DeviceBed (tests/device/device_bed.h), which says how arithmetic gets into that
// stream. The cases are in the headers included here: one file of a program includes this one.
#pragma once

#include "tests/device/device_bed.h"
#include "tests/device/device_suite_cases.h"
#include "tests/device/device_suite_notes.h"
