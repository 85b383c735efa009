// What a device brings to the suite that every device passes (tests/device/device_suite.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "swap/device/device.h"

namespace spillway {

// A device, and what its tests need beside it. The destructor ends the device, and checks that
// nothing of it is left where that can be seen.
class DeviceBed {
 public:
  virtual ~DeviceBed() = default;
  virtual Device& device() = 0;

  // A kernel that runs `body` when the stream comes to it. `body` touches no device memory.
  virtual Device::Kernel Run(std::function<void()> body) {
    return [body = std::move(body)](void*) {
      body();
      return absl::OkStatus();
    };
  }
  // A kernel that adds `amount` to each of `bytes` at `data`, in device memory.
  virtual Device::Kernel Add(char* data, uint64_t bytes, char amount) {
    return Run([data, bytes, amount] {
      for (uint64_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(data[i] + amount);
    });
  }
};

// Null with a reason on stderr: there is no such device here, and the tests are skipped.
struct DeviceBedMaker {
  std::function<std::unique_ptr<DeviceBed>()> make;
  std::string name;
};

inline std::unique_ptr<DeviceBed> MakeBed(std::unique_ptr<Device> device) {
  class Bed final : public DeviceBed {
   public:
    explicit Bed(std::unique_ptr<Device> device) : device_(std::move(device)) {}
    Device& device() override { return *device_; }

   private:
    std::unique_ptr<Device> device_;
  };
  return std::make_unique<Bed>(std::move(device));
}

// The same device as drawn from a few seeds.
inline std::vector<DeviceBedMaker> SeededBeds(
    const std::function<std::unique_ptr<DeviceBed>(uint64_t seed)>& make) {
  std::vector<DeviceBedMaker> makers;
  for (uint64_t seed : {0, 1, 2, 3}) {
    makers.push_back({[make, seed] { return make(seed); }, absl::StrCat("Seed", seed)});
  }
  return makers;
}

inline std::string BedName(const testing::TestParamInfo<DeviceBedMaker>& info) {
  return info.param.name;
}

class DeviceConformance : public testing::TestWithParam<DeviceBedMaker> {};

// How each case begins.
#define MAKE_BED_OR_SKIP()                                            \
  const std::unique_ptr<DeviceBed> bed = GetParam().make();           \
  if (bed == nullptr) GTEST_SKIP() << "there is no such device here"; \
  Device& device = bed->device()

}  // namespace spillway
