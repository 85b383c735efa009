#include "swap/device/cuda/cuda_device.h"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda/standin_bed.h"
#include "tests/cuda/standin_cudart.h"
#include "tests/device/device_suite.h"
#include "tests/device/device_suite_testing.h"

namespace spillway {

INSTANTIATE_TEST_SUITE_P(CudaDevice, DeviceConformance,
                         testing::ValuesIn(SeededBeds([](uint64_t seed) {
                           return std::make_unique<StandinBed>(StandinOptions{.seed = seed});
                         })),
                         BedName);

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Text(const absl::Status& status) { return status.ToString(); }

TEST(CudaDevice, IsNamedWithItsNumber) {
  StandinBed bed({.devices = 3, .name = "NVIDIA H200"}, 2);
  EXPECT_EQ(bed.device().name(), "NVIDIA H200 (device 2)");
}

TEST(CudaDevice, OpenSaysWhatIsInTheWay) {
  StandinCudart::Reset({});
  EXPECT_THAT(Text(CudaDevice::Open(1).status()),
              AllOf(HasSubstr("device 1"), HasSubstr("CUDA_VISIBLE_DEVICES")));
  StandinCudart::Reset({.capability = 70});
  EXPECT_EQ(CudaDevice::Open(0).status().code(), absl::StatusCode::kFailedPrecondition);
  StandinCudart::Reset({.busy = true});
  const absl::Status busy = CudaDevice::Open(0).status();
  EXPECT_EQ(busy.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Text(busy), AllOf(HasSubstr("cudaSetDevice"), HasSubstr("another process"),
                                HasSubstr("Stand-in GPU (device 0)")));
  EXPECT_THAT(StandinCudart::Left(), testing::IsEmpty());
}

// A context on a device that a rank does not use would take memory from the rank that does.
TEST(CudaDevice, NoThreadTouchesAnotherDevice) {
  StandinBed bed({.devices = 2}, 1);
  Device& device = bed.device();
  std::thread([&] { EXPECT_TRUE(device.Synchronize().ok()); }).join();
  PinnedMemory host(&device, 4096);
  std::vector<std::thread> threads;
  for (StreamId stream : kEveryStream) {
    threads.emplace_back([&, stream] {
      DeviceMemory memory(&device, 4096);
      device.Copy(stream, memory.data(), host.data(), 4096);
      device.Launch(stream, bed.Add(memory.data(), 4096, 1));
      device.Wait(StreamId::kCompute, device.Record(stream));
      EXPECT_TRUE(device.Synchronize().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  // What does nothing but give memory back is a call too.
  auto data = device.Allocate(4096);
  ASSERT_TRUE(data.ok());
  std::thread([&] { device.Free(*data); }).join();
  EXPECT_THAT(StandinCudart::Contexts(), testing::ElementsAre(1));
}

TEST(CudaDevice, OutOfMemorySaysWhatIsFreeAndLeavesNoErrorBehind) {
  StandinBed bed({.memory_bytes = 64 << 20});
  DeviceMemory memory(&bed.device(), 16 << 20);
  const absl::Status refused = bed.device().Allocate(60 << 20).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Text(refused),
              AllOf(HasSubstr("cudaMalloc of 60 MiB on Stand-in GPU (device 0)"),
                    HasSubstr("48 MiB of 64 MiB are free"), HasSubstr("out of memory"),
                    HasSubstr("cudaErrorMemoryAllocation"), HasSubstr("--device-memory")));
  // LibTorch would report it with the next kernel that it launches.
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_TRUE(bed.device().Synchronize().ok());
}

TEST(CudaDevice, PinningThatIsRefusedNamesTheLimits) {
  StandinBed bed({});
  StandinCudart::Fail("cudaHostRegister", 1, cudaErrorMemoryAllocation);
  alignas(4096) static char page[4096];
  const absl::Status refused = bed.device().RegisterHost(page, sizeof(page));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      Text(refused),
      AllOf(HasSubstr("cudaHostRegister of 4 KiB for Stand-in GPU (device 0)"),
            HasSubstr("RLIMIT_MEMLOCK"), HasSubstr("memory.max"), HasSubstr("--host-memory")));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_TRUE(bed.device().RegisterHost(page, sizeof(page)).ok());
  bed.device().UnregisterHost(page);
}

TEST(CudaDevice, AKernelsFaultIsToldWithEveryNoteAndEverythingIsGivenBack) {
  StandinBed bed({.seed = 1});
  Device& device = bed.device();
  PinnedMemory host(&device, 4096);
  DeviceMemory memory(&device, 4096);
  Notes notes;
  device.Launch(StreamId::kCompute, StandinKernel([] { return cudaErrorIllegalAddress; }));
  device.Copy(StreamId::kCompute, host.data(), memory.data(), 4096);
  for (StreamId stream : kEveryStream) {
    device.Wait(stream, device.Record(StreamId::kCompute));
    device.Notify(stream, notes.Note(1));
  }
  const absl::Status broken = device.Synchronize();
  EXPECT_EQ(broken.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Text(broken), AllOf(HasSubstr("illegal memory access"), HasSubstr("Xid"),
                                  HasSubstr("Stand-in GPU (device 0)")));
  ASSERT_EQ(notes.came().size(), kStreams);
  for (const Notes::Came& note : notes.came()) EXPECT_EQ(note.status, broken);
  EXPECT_FALSE(device.Allocate(4096).ok());
}

TEST(CudaDevice, ALaunchThatItsKernelDoesNotCheckIsChecked) {
  StandinBed bed({});
  bed.device().Launch(StreamId::kToHost, [](void*) {
    void* data;
    (void)cudaMalloc(&data, uint64_t{1} << 50);  // leaves an error, as a launch does
    return absl::OkStatus();
  });
  EXPECT_THAT(Text(bed.device().Synchronize()),
              AllOf(HasSubstr("launch of a kernel"), HasSubstr("the stream to the host")));
}

TEST(CudaDevice, AnErrorThatWasThereBeforeIsNotTheKernels) {
  StandinBed bed({});
  EXPECT_NE(cudaSetDevice(99), cudaSuccess);
  bed.device().Launch(StreamId::kToHost, bed.Run([] {}));
  EXPECT_TRUE(bed.device().Synchronize().ok());
}

TEST(CudaDevice, ACopyThatIsRefusedBreaksTheDeviceAndNamesItself) {
  StandinBed bed({});
  DeviceMemory memory(&bed.device(), 4096);
  std::vector<char> unregistered(4096);
  bed.device().Copy(StreamId::kToDevice, memory.data(), unregistered.data(), 4096);
  EXPECT_THAT(
      Text(bed.device().Synchronize()),
      HasSubstr("cudaMemcpyAsync of 4 KiB in the stream to the GPU of Stand-in GPU (device 0)"));
}

TEST(CudaDevice, ANoteWhoseEventCannotBeWaitedForComesAfterItsWorkAllTheSame) {
  StandinBed bed({});
  Gate gate;
  Notes notes;
  StandinCudart::Fail("cudaEventSynchronize", 1, cudaErrorUnknown);
  bed.device().Launch(StreamId::kToHost, bed.Run(gate.Pass()));
  bed.device().Notify(StreamId::kToHost, notes.Note(1));
  WaitABit();
  EXPECT_THAT(notes.came(), testing::IsEmpty());
  gate.Open();
  EXPECT_THAT(Text(bed.device().Synchronize()), HasSubstr("cudaEventSynchronize"));
  ASSERT_EQ(notes.came().size(), 1);
  EXPECT_FALSE(notes.came()[0].status.ok());
}

TEST(CudaDevice, EventsAreUsedAgain) {
  StandinBed bed({});
  for (int i = 0; i < 100; ++i) {
    bed.device().Wait(StreamId::kCompute, bed.device().Record(StreamId::kToDevice));
    ASSERT_TRUE(bed.device().Synchronize().ok());
  }
  // One that was recorded, and one for each stream's note.
  EXPECT_LE(StandinCudart::Calls()["cudaEventCreateWithFlags"], 1 + kStreams);
}

TEST(CudaDevice, LibTorchComputesInItsComputeStream) {
  StandinBed bed({});
  auto* stream = static_cast<cudaStream_t>(bed.device().native_compute_stream());
  Gate gate;
  Notes notes;
  ASSERT_EQ(StandinCudart::Launch(stream,
                                  [pass = gate.Pass()] {
                                    pass();
                                    return cudaSuccess;
                                  }),
            cudaSuccess);
  bed.device().Wait(StreamId::kToHost, bed.device().Record(StreamId::kCompute));
  bed.device().Notify(StreamId::kToHost, notes.Note(1));
  WaitABit();
  EXPECT_THAT(notes.came(), testing::IsEmpty());
  gate.Open();
  EXPECT_TRUE(bed.device().Synchronize().ok());
}

using CudaDeviceDeathTest = testing::Test;

TEST(CudaDeviceDeathTest, EndingItTooEarlyIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        StandinBed bed({});
        (void)bed.device().Allocate(4096);
      },
      "allocated_");
  EXPECT_DEATH(
      {
        alignas(4096) static char page[4096];
        StandinBed bed({});
        (void)bed.device().RegisterHost(page, sizeof(page));
      },
      "registered_");
  EXPECT_DEATH(
      {
        DeviceEvent event;
        StandinBed bed({});
        event = bed.device().Record(StreamId::kCompute);
        (void)bed.device().Synchronize();
      },
      "taken_");
  EXPECT_DEATH(
      {
        StandinBed bed({});
        bed.device().Launch(StreamId::kCompute, bed.Run([] { WaitABit(); }));
      },
      "put_");
}

}  // namespace
}  // namespace spillway
