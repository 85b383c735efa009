// The stand-in refuses what CUDA refuses, or would do badly, and counts what is left.
#include "tests/cuda/standin_cudart.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/device/device_suite_testing.h"

namespace spillway {
namespace {

constexpr size_t kCopiedBytes = 4096;

class StandinCudartTest : public testing::Test {
 protected:
  StandinCudartTest() {
    StandinCudart::Reset({.devices = 2, .seed = 1});
    EXPECT_EQ(cudaMalloc(&memory_, kCopiedBytes), cudaSuccess);
    EXPECT_EQ(cudaHostRegister(host_, kCopiedBytes, cudaHostRegisterPortable), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~StandinCudartTest() override { StandinCudart::Reset({}); }

  cudaError_t Copy(void* to, const void* from, size_t bytes) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_);
  }
  char* memory() { return static_cast<char*>(memory_); }

  alignas(4096) static inline char host_[kCopiedBytes];
  void* memory_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaStream_t other_ = nullptr;
};

TEST_F(StandinCudartTest, CopiesStayWithinMemoryThatIsKnown) {
  EXPECT_EQ(Copy(memory_, host_, kCopiedBytes), cudaSuccess);
  EXPECT_EQ(Copy(host_ + 1, memory() + 1, kCopiedBytes - 1), cudaSuccess);
  EXPECT_EQ(Copy(memory() + 1, host_, kCopiedBytes), cudaErrorInvalidValue);
  EXPECT_EQ(Copy(memory_, host_ + 1, kCopiedBytes), cudaErrorInvalidValue);
  EXPECT_EQ(Copy(host_, host_ + 1, 1), cudaErrorInvalidValue);
  std::vector<char> unregistered(kCopiedBytes);
  EXPECT_EQ(Copy(memory_, unregistered.data(), kCopiedBytes), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(memory_, host_, kCopiedBytes, cudaMemcpyDeviceToHost, stream_),
            cudaErrorInvalidValue);
}

TEST_F(StandinCudartTest, MemoryOfAnotherDeviceIsUnknown) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  void* elsewhere;
  ASSERT_EQ(cudaMalloc(&elsewhere, kCopiedBytes), cudaSuccess);
  EXPECT_EQ(Copy(elsewhere, host_, kCopiedBytes), cudaErrorInvalidValue);
  cudaEvent_t event;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream_), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(StandinCudart::Launch(stream_, [] { return cudaSuccess; }),
            cudaErrorInvalidResourceHandle);
}

TEST_F(StandinCudartTest, TheHostCannotTouchDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(memory()[0] = 1, "");
}

TEST_F(StandinCudartTest, StreamsGoOnTheirOwnAndEventsOrderThem) {
  Gate gate;
  std::atomic<int> done{0};
  auto count = [&done] {
    ++done;
    return cudaSuccess;
  };
  ASSERT_EQ(StandinCudart::Launch(stream_,
                                  [pass = gate.Pass()] {
                                    pass();
                                    return cudaSuccess;
                                  }),
            cudaSuccess);
  cudaEvent_t event;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
            cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(other_, event, 0), cudaSuccess);  // recorded nowhere
  EXPECT_EQ(StandinCudart::Launch(other_, count), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(other_, event, 0), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(StandinCudart::Launch(other_, count), cudaSuccess);
  WaitABit();
  EXPECT_EQ(done, 1);
  gate.Open();
  EXPECT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
  EXPECT_EQ(done, 2);
}

TEST_F(StandinCudartTest, WaitingForAnEventThatWouldSpinIsRefused) {
  cudaEvent_t event;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorInvalidValue);
}

TEST_F(StandinCudartTest, FreeingWaitsForTheStreams) {
  std::atomic<bool> done{false};
  ASSERT_EQ(StandinCudart::Launch(stream_,
                                  [&done] {
                                    WaitABit();
                                    done = true;
                                    return cudaSuccess;
                                  }),
            cudaSuccess);
  EXPECT_EQ(cudaFree(memory_), cudaSuccess);
  EXPECT_TRUE(done);
  EXPECT_EQ(cudaFree(memory_), cudaErrorInvalidValue);
}

TEST_F(StandinCudartTest, WhatIsNotGivenBackIsCounted) {
  EXPECT_THAT(StandinCudart::Left(),
              testing::ElementsAre(testing::Pair("allocations", 1),
                                   testing::Pair("registrations", 1), testing::Pair("streams", 2)));
  EXPECT_EQ(cudaHostRegister(host_, kCopiedBytes, cudaHostRegisterPortable),
            cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(cudaHostUnregister(host_), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(host_), cudaErrorHostMemoryNotRegistered);
  EXPECT_EQ(cudaFree(memory_), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other_), cudaSuccess);
  EXPECT_THAT(StandinCudart::Left(), testing::IsEmpty());
}

TEST_F(StandinCudartTest, AnErrorStaysUntilItIsAskedFor) {
  EXPECT_EQ(cudaFree(host_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(StandinCudartTest, PlannedFailuresComeOnceOrForEver) {
  StandinCudart::Fail("cudaSetDevice", 2, cudaErrorUnknown);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaErrorUnknown);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(StandinCudart::Calls()["cudaSetDevice"], 3);

  StandinCudart::Fail("cudaSetDevice", 4, cudaErrorUnknown, /*sticky=*/true);
  std::fill_n(host_, kCopiedBytes, 'a');
  EXPECT_EQ(Copy(memory_, host_, kCopiedBytes), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaErrorUnknown);
  EXPECT_EQ(Copy(memory_, host_, kCopiedBytes), cudaErrorUnknown);
  EXPECT_EQ(cudaGetLastError(), cudaErrorUnknown);
  EXPECT_EQ(cudaGetLastError(), cudaErrorUnknown);
}

TEST_F(StandinCudartTest, AKernelsFaultStopsAllWork) {
  Gate gate;
  std::fill_n(host_, kCopiedBytes, 'a');
  ASSERT_EQ(StandinCudart::Launch(stream_,
                                  [pass = gate.Pass()] {
                                    pass();
                                    return cudaErrorIllegalAddress;
                                  }),
            cudaSuccess);
  ASSERT_EQ(Copy(host_, memory_, kCopiedBytes), cudaSuccess);
  gate.Open();
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamSynchronize(other_), cudaErrorIllegalAddress);
  EXPECT_EQ(std::count(host_, host_ + kCopiedBytes, 'a'), int64_t{kCopiedBytes});
}

}  // namespace
}  // namespace spillway
