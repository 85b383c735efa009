// Each call that a CudaDevice makes fails once, in turn: nothing hangs or is left behind, every
// note comes, and a status names the call.
#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "swap/device/cuda/cuda_device.h"
#include "tests/cuda/standin_bed.h"
#include "tests/cuda/standin_cudart.h"
#include "tests/device/device_suite_testing.h"

namespace spillway {
namespace {

constexpr uint64_t kBytes = 1000;
constexpr int kRounds = 3;

struct Outcome {
  std::vector<absl::Status> statuses;  // of everything that has one
  std::map<std::string, int> calls;    // before the device's end
  bool finished = false;               // all was asked for, and the bytes are right
  int notes = 0;
  int notes_asked_for = 0;
};

// A little of everything that the mover asks of a device.
void Use(CudaDevice* device, char* host, Outcome* outcome) {
  const auto memory = device->Allocate(kBytes);
  outcome->statuses.push_back(memory.status());
  if (!memory.ok()) return;
  std::atomic<int> notes{0};
  std::fill_n(host, kBytes, '\1');
  for (int round = 0; round < kRounds; ++round) {
    device->Copy(StreamId::kToDevice, *memory, host, kBytes);
    device->Wait(StreamId::kCompute, device->Record(StreamId::kToDevice));
    char* access = StandinCudart::Access(*memory, kBytes);
    device->Launch(StreamId::kCompute, StandinKernel([access] {
                     for (uint64_t i = 0; i < kBytes; ++i) ++access[i];
                     return cudaSuccess;
                   }));
    device->Notify(StreamId::kCompute, [&notes](const absl::Status&) { ++notes; });
    const DeviceEvent computed = device->Record(StreamId::kCompute);
    device->Wait(StreamId::kToHost, computed);
    device->Copy(StreamId::kToHost, host, *memory, kBytes);
    device->Notify(StreamId::kToHost, [&notes](const absl::Status&) { ++notes; });
    device->Wait(StreamId::kToDevice, device->Record(StreamId::kToHost));
    outcome->notes_asked_for += 2;
  }
  outcome->statuses.push_back(device->Synchronize());
  outcome->notes = notes;
  outcome->finished = outcome->statuses.back().ok() &&
                      std::count(host, host + kBytes, '\1' + kRounds) == int64_t{kBytes};
  device->Free(*memory);
}

// What happens with `function`'s call number `nth` failing (0: none).
Outcome FailIn(const std::string& function, int nth, bool sticky) {
  Outcome outcome;
  StandinCudart::Reset({.seed = 5});
  if (nth > 0) StandinCudart::Fail(function, nth, cudaErrorUnknown, sticky);
  alignas(4096) static char host[4096];
  {
    const auto device = CudaDevice::Open(0);
    outcome.statuses.push_back(device.status());
    if (device.ok()) {
      outcome.statuses.push_back((*device)->RegisterHost(host, sizeof(host)));
      if (outcome.statuses.back().ok()) {
        Use(device->get(), host, &outcome);
        (*device)->UnregisterHost(host);
      }
      outcome.statuses.push_back((*device)->Synchronize());
    }
    outcome.calls = StandinCudart::Calls();
  }
  EXPECT_THAT(StandinCudart::Left(), testing::IsEmpty());
  EXPECT_EQ(outcome.notes, outcome.notes_asked_for);
  return outcome;
}

// Whether a status says which call it was, and on which device.
bool IsNamed(const Outcome& outcome, const std::string& function) {
  return std::any_of(outcome.statuses.begin(), outcome.statuses.end(), [&](const auto& status) {
    return !status.ok() && absl::StrContains(status.message(), function) &&
           absl::StrContains(status.message(), "device 0");
  });
}

class CudaDeviceFailures : public testing::TestWithParam<bool> {};

TEST_P(CudaDeviceFailures, EachCallFailsInTurn) {
  const Outcome good = FailIn("", 0, false);
  ASSERT_TRUE(good.finished) << testing::PrintToString(good.statuses);
  int tried = 0;
  for (const auto& [function, count] : good.calls) {
    for (int nth = 1; nth <= count; ++nth) {
      SCOPED_TRACE(absl::StrCat(function, " fails at call ", nth));
      Outcome outcome = FailIn(function, nth, GetParam());
      if (outcome.calls[function] < nth) {
        // How many events are needed hangs on how soon one can be used again.
        EXPECT_EQ(function, "cudaEventCreateWithFlags");
        EXPECT_TRUE(outcome.finished);
        continue;
      }
      // The last error is looked at after a launch, and before it, when it is nobody's.
      if (function == "cudaGetLastError") continue;
      // Where all calls fail from then on, another thread's may be told of first.
      EXPECT_TRUE(IsNamed(outcome, GetParam() ? "" : function))
          << testing::PrintToString(outcome.statuses);
      ++tried;
    }
  }
  EXPECT_GT(tried, 60);
}

// At its end nobody can be told of an error, and all is given back nevertheless.
TEST_P(CudaDeviceFailures, CallsOfTheEndFailInTurn) {
  FailIn("", 0, false);
  const std::map<std::string, int> calls = StandinCudart::Calls();
  for (const char* function : {"cudaStreamDestroy", "cudaEventDestroy"}) {
    ASSERT_GT(calls.at(function), 0);
    for (int nth = 1; nth <= calls.at(function); ++nth) {
      SCOPED_TRACE(absl::StrCat(function, " fails at call ", nth));
      EXPECT_TRUE(FailIn(function, nth, GetParam()).finished);
    }
  }
  FailIn("cudaSetDevice", calls.at("cudaSetDevice"), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaDeviceFailures, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "ForEver" : "Once"; });

}  // namespace
}  // namespace spillway
