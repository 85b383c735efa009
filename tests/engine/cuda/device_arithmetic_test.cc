// The kernels' bodies against the CPU's loops, bit for bit.
#include "engine/cuda/device_arithmetic.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/launch_status.h"
#include "engine/numeric/gradient_loops.h"
#include "engine/numeric/optimizer_spec.h"
#include "tests/engine/cuda/emulated_kernels.h"
#include "tests/engine/cuda/hard_numbers.h"

namespace spillway {
namespace {

TEST(AccumulateGradientOnDevice, HasTheBitsOfTheCpu) {
  std::mt19937 random(1);
  for (DType dtype : kAllDTypes) {
    for (uint64_t count : {1, 3, 255, 256, 1023, 1024, 1025, 5000}) {
      // Odd places: gradients and sums need no more alignment than their numbers.
      std::vector<float> device(count + 2, 17.0f), host;
      for (float& sum : device) sum = HardNumber(random, 1, true);
      host = device;
      for (bool first : {true, false, false}) {
        const std::vector<char> gradient = HardNumbers(dtype, count + 1, random, 1, true);
        const char* from = gradient.data() + DTypeBytes(dtype);
        AccumulateGradient(dtype, from, count, host.data() + 1, first);
        ASSERT_TRUE(AccumulateGradientOnDevice(EmulatedStream(), dtype, from, count,
                                               device.data() + 1, first)
                        .ok());
        for (uint64_t i = 0; i < device.size(); ++i) {
          if (first) {
            ASSERT_EQ(BitsOf(device[i]), BitsOf(host[i])) << DTypeName(dtype) << " " << i;
          } else {
            ASSERT_TRUE(SameNumber(device[i], host[i])) << DTypeName(dtype) << " " << i;
          }
        }
      }
    }
  }
}

TEST(ExchangeOnDevice, HasTheBitsOfTheCpu) {
  std::mt19937 random(3);
  for (const ExchangeFormat format : {ExchangeFormat::kBFloat16, ExchangeFormat::kFloat8}) {
    for (uint64_t count : {1, 255, 256, 257, 1024, 5000}) {
      std::vector<float> sums(count), device(count), host(count);
      for (float& sum : sums) sum = HardNumber(random, 1, false);
      const uint64_t bytes = ExchangedBytes(format, count);
      // What lies between the codes and their scales is nobody's.
      std::vector<char> of_host(bytes, 'x'), of_device = of_host;
      alignas(64) char scratch[kRoundScratchBytes];
      EncodeSums(format, sums.data(), count, of_host.data());
      ASSERT_TRUE(EncodeSumsOnDevice(EmulatedStream(), format, sums.data(), count, of_device.data(),
                                     scratch)
                      .ok());
      ASSERT_EQ(of_host, of_device) << ExchangeFormatName(format) << " " << count;
      for (bool first : {true, false, false}) {
        AddExchanged(format, of_host.data(), count, host.data(), first);
        ASSERT_TRUE(AddExchangedOnDevice(EmulatedStream(), format, of_device.data(), count,
                                         device.data(), first)
                        .ok());
        for (uint64_t i = 0; i < count; ++i) ASSERT_TRUE(SameNumber(device[i], host[i])) << i;
      }
    }
  }
}

TEST(DropoutApplyOnDevice, HasTheMasksAndTheBitsOfTheCpu) {
  std::mt19937 random(2);
  const DropoutKey key = {.seed = 1234567890123, .step = 7, .sample = 3, .unit = 5, .site = 2};
  for (DType dtype : kAllDTypes) {
    const uint32_t bytes = DTypeBytes(dtype);
    for (double p : {0.0, 0.1, 0.5, 0.97}) {
      for (uint64_t begin : {uint64_t{0}, uint64_t{1}, uint64_t{127}, uint64_t{128}, uint64_t{1000},
                             (uint64_t{1} << 35) - 70, (uint64_t{1} << 40) + 5}) {
        for (uint64_t count : {1, 16, 127, 129, 2048, 4099}) {
          const std::vector<char> in = HardNumbers(dtype, count, random, 1, true);
          // What lies around the range stays.
          std::vector<char> host((count + 2) * bytes, 'x'), device = host, in_place = in;
          DropoutApply(key, p, begin, count, dtype, in.data(), host.data() + bytes);
          ASSERT_TRUE(DropoutApplyOnDevice(EmulatedStream(), key, p, begin, count, dtype, in.data(),
                                           device.data() + bytes)
                          .ok());
          ASSERT_EQ(std::memcmp(host.data(), device.data(), host.size()), 0)
              << DTypeName(dtype) << " p " << p << " " << begin << " + " << count;
          ASSERT_TRUE(DropoutApplyOnDevice(EmulatedStream(), key, p, begin, count, dtype,
                                           in_place.data(), in_place.data())
                          .ok());
          ASSERT_EQ(std::memcmp(in_place.data(), host.data() + bytes, in_place.size()), 0);
        }
      }
    }
  }
}

TEST(DeviceArithmetic, NothingToDoIsNoLaunch) {
  const int before = Launches().kernels;
  EXPECT_TRUE(
      AccumulateGradientOnDevice(EmulatedStream(), DType::kFloat32, nullptr, 0, nullptr, true)
          .ok());
  EXPECT_TRUE(
      DropoutApplyOnDevice(EmulatedStream(), {}, 0.5, 0, 0, DType::kFloat32, nullptr, nullptr)
          .ok());
  EXPECT_EQ(Launches().kernels, before);
}

TEST(DeviceArithmetic, ARefusedLaunchIsAnErrorWithItsReason) {
  float number = 1;
  const RefusedLaunches refused("out of memory");
  const absl::Status accumulate =
      AccumulateGradientOnDevice(EmulatedStream(), DType::kFloat32, &number, 1, &number, true);
  EXPECT_EQ(
      accumulate,
      absl::InternalError("CUDA did not take the kernel for gradient accumulation: out of memory"));
  EXPECT_FALSE(
      DropoutApplyOnDevice(EmulatedStream(), {}, 0.5, 0, 1, DType::kFloat32, &number, &number)
          .ok());
}

TEST(DeviceArithmetic, ABuildWithoutKernelsForTheGpuIsNamedWithItsRemedy) {
  float number = 1;
  const std::string reason = kNoKernels;  // the text counts, not where it lies
  const RefusedLaunches refused(reason.c_str());
  EXPECT_EQ(
      AccumulateGradientOnDevice(EmulatedStream(), DType::kFloat32, &number, 1, &number, true),
      absl::FailedPreconditionError(
          "CUDA did not take the kernel for gradient accumulation: this build has no kernels for "
          "this GPU: use another GPU or a newer build"));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      LaunchStatus("zeros", LaunchZero(EmulatedStream(), &number, sizeof(number)))));
  EXPECT_EQ(number, 1);
}

}  // namespace
}  // namespace spillway
