// Cases of tests/device/device_suite.h: notes, and what breaks.
#pragma once

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "tests/device/device_bed.h"
#include "tests/device/device_suite_testing.h"

namespace spillway {

// ---------------------------------------------------------------------------------- Notes

TEST_P(DeviceConformance, NotesComeInOrderAndAfterTheirWork) {
  MAKE_BED_OR_SKIP();
  constexpr int kRounds = 60;
  constexpr uint64_t kBytes = 500;
  PinnedMemory in(&device, kRounds * kBytes);
  PinnedMemory out(&device, kRounds * kBytes);
  DeviceMemory memory(&device, kBytes);
  std::fill_n(out.data(), kRounds * kBytes, '\0');
  std::atomic<int> next{0};
  std::atomic<int> wrong{0};
  std::atomic<int> on_this_thread{0};
  const auto caller = std::this_thread::get_id();
  for (int i = 0; i < kRounds; ++i) {
    std::fill_n(in.data() + i * kBytes, kBytes, static_cast<char>(i + 1));
    device.Copy(StreamId::kToHost, memory.data(), in.data() + i * kBytes, kBytes);
    device.Copy(StreamId::kToHost, out.data() + i * kBytes, memory.data(), kBytes);
    device.Notify(StreamId::kToHost, [&, i](const absl::Status& status) {
      const char* got = out.data() + i * kBytes;
      wrong += !status.ok() || next++ != i ||
               std::count(got, got + kBytes, static_cast<char>(i + 1)) != kBytes;
      on_this_thread += std::this_thread::get_id() == caller;
    });
  }
  ASSERT_TRUE(device.Synchronize().ok());
  EXPECT_EQ(next, kRounds);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(on_this_thread, 0);
}

TEST_P(DeviceConformance, ANoteOfOneStreamDoesNotWaitForAnother) {
  MAKE_BED_OR_SKIP();
  Gate gate;
  Notes notes;
  device.Launch(StreamId::kCompute, bed->Run(gate.Pass()));
  device.Notify(StreamId::kCompute, notes.Note(1));
  device.Notify(StreamId::kToHost, notes.Note(2));
  device.Notify(StreamId::kToDevice, notes.Note(3));
  ASSERT_TRUE(notes.Await(2));
  EXPECT_THAT(notes.numbers(), testing::UnorderedElementsAre(2, 3));
  gate.Open();
  EXPECT_TRUE(device.Synchronize().ok());
  EXPECT_THAT(notes.numbers(), testing::Contains(1));
}

TEST_P(DeviceConformance, SynchronizeComesAfterAllWorkAndAllNotes) {
  MAKE_BED_OR_SKIP();
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> done{0};
    for (StreamId stream : kEveryStream) {
      for (int i = 0; i < 5; ++i) {
        device.Launch(stream, bed->Run([&done] { ++done; }));
        device.Notify(stream, [&done](const absl::Status&) { ++done; });
      }
    }
    ASSERT_TRUE(device.Synchronize().ok());
    ASSERT_EQ(done, kStreams * 5 * 2);
  }
}

TEST_P(DeviceConformance, ManyThreadsMayCallAtOnce) {
  MAKE_BED_OR_SKIP();
  constexpr int kThreads = 6;
  constexpr int kRounds = 20;
  constexpr uint64_t kBytes = 1000;
  PinnedMemory host(&device, kThreads * kBytes);
  std::fill_n(host.data(), kThreads * kBytes, '\0');
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      char* here = host.data() + t * kBytes;
      DeviceMemory memory(&device, kBytes);
      Notes own;
      for (int i = 0; i < kRounds; ++i) {
        device.Copy(StreamId::kToDevice, memory.data(), here, kBytes);
        device.Wait(StreamId::kCompute, device.Record(StreamId::kToDevice));
        device.Launch(StreamId::kCompute, bed->Add(memory.data(), kBytes, 1));
        device.Wait(StreamId::kToHost, device.Record(StreamId::kCompute));
        device.Copy(StreamId::kToHost, here, memory.data(), kBytes);
        device.Wait(StreamId::kToDevice, device.Record(StreamId::kToHost));
        device.Notify(StreamId::kToHost, own.Note(i));
      }
      EXPECT_TRUE(own.Await(kRounds));
      EXPECT_TRUE(device.Synchronize().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(device.Synchronize().ok());
  EXPECT_EQ(std::count(host.data(), host.data() + kThreads * kBytes, static_cast<char>(kRounds)),
            static_cast<int64_t>(kThreads * kBytes));
}

// -------------------------------------------------------------------- The compute thread

TEST_P(DeviceConformance, ComputingBeginsWhereTheComputeStreamIs) {
  MAKE_BED_OR_SKIP();
  PinnedMemory host(&device, 4096);
  DeviceMemory memory(&device, 4096);
  std::atomic<bool> done{false};
  device.Copy(StreamId::kToDevice, memory.data(), host.data(), 4096);
  device.Wait(StreamId::kCompute, device.Record(StreamId::kToDevice));
  device.Launch(StreamId::kCompute, bed->Run([&done] {
    WaitABit();
    done = true;
  }));
  device.BeginComputing(StreamId::kCompute);
  // Operations that run in the stream come after the kernel by themselves.
  EXPECT_TRUE(done || device.native_compute_stream() != nullptr);
  const DeviceEvent computed = device.Record(StreamId::kCompute);
  device.Wait(StreamId::kToDevice, device.Discard(memory.data(), 4096, {computed}));
  EXPECT_TRUE(device.Synchronize().ok());
}

// ---------------------------------------------------------------------------- What breaks

TEST_P(DeviceConformance, AKernelsErrorReachesEveryNoteAndSynchronizeFromThenOn) {
  MAKE_BED_OR_SKIP();
  Notes notes;
  for (StreamId stream : kEveryStream) device.Notify(stream, notes.Note(0));
  device.Launch(StreamId::kCompute, [](void*) { return absl::InternalError("kernel A failed"); });
  device.Notify(StreamId::kCompute, notes.Note(1));
  EXPECT_THAT(std::string(device.Synchronize().message()), testing::HasSubstr("kernel A failed"));
  device.Launch(StreamId::kCompute, [](void*) { return absl::InternalError("kernel B failed"); });
  for (StreamId stream : kEveryStream) {
    device.Wait(stream, device.Record(StreamId::kCompute));
    device.Notify(stream, notes.Note(2));
  }
  EXPECT_THAT(std::string(device.Synchronize().message()), testing::HasSubstr("kernel A failed"));
  const std::vector<Notes::Came> came = notes.came();
  EXPECT_EQ(came.size(), 1 + 2 * kStreams);
  for (const Notes::Came& note : came) {
    if (note.number == 0) continue;  // put before the error, it may have come before it
    EXPECT_THAT(std::string(note.status.message()), testing::HasSubstr("kernel A failed"))
        << "note " << note.number;
    EXPECT_EQ(note.status.code(), absl::StatusCode::kInternal);
  }
}

TEST_P(DeviceConformance, ABrokenDeviceDoesNothingMoreAndGivesItsMemoryBack) {
  MAKE_BED_OR_SKIP();
  PinnedMemory host(&device, 8192);
  DeviceMemory memory(&device, 4096);
  std::fill_n(host.data(), 4096, 'a');
  std::fill_n(host.data() + 4096, 4096, 'z');
  device.Copy(StreamId::kToHost, memory.data(), host.data(), 4096);
  ASSERT_TRUE(device.Synchronize().ok());
  std::atomic<int> ran{0};
  // In the stream of the error nothing goes past it, and after Synchronize nothing anywhere.
  device.Launch(StreamId::kToHost, [](void*) { return absl::InternalError("broken"); });
  device.Copy(StreamId::kToHost, host.data() + 4096, memory.data(), 4096);
  device.Launch(StreamId::kToHost, bed->Run([&ran] { ++ran; }));
  EXPECT_FALSE(device.Synchronize().ok());
  for (StreamId stream : kEveryStream) {
    device.Copy(stream, host.data() + 4096, memory.data(), 4096);
    device.Launch(stream, bed->Run([&ran] { ++ran; }));
    device.Launch(stream, [&ran](void*) {
      ++ran;
      return absl::OkStatus();
    });
  }
  EXPECT_FALSE(device.Synchronize().ok());
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(std::count(host.data() + 4096, host.data() + 8192, 'z'), 4096);
}

TEST_P(DeviceConformance, ANoteComesAfterTheWorkAlsoWhereTheDeviceBreaksMeanwhile) {
  MAKE_BED_OR_SKIP();
  Gate gate;
  Notes notes;
  device.Launch(StreamId::kToHost, bed->Run(gate.Pass()));
  device.Notify(StreamId::kToHost, notes.Note(1));
  device.Launch(StreamId::kCompute, [](void*) { return absl::InternalError("broken"); });
  device.Notify(StreamId::kCompute, notes.Note(2));
  ASSERT_TRUE(notes.Await(1));
  device.Notify(StreamId::kToHost, notes.Note(3));
  WaitABit();
  EXPECT_THAT(notes.numbers(), testing::ElementsAre(2));
  gate.Open();
  EXPECT_FALSE(device.Synchronize().ok());
  EXPECT_THAT(notes.numbers(), testing::ElementsAre(2, 1, 3));
  for (const Notes::Came& note : notes.came()) EXPECT_FALSE(note.status.ok());
}

TEST_P(DeviceConformance, ANoteToABrokenDeviceComesAfterTheWorkBeforeIt) {
  MAKE_BED_OR_SKIP();
  Gate gate;
  Notes notes;
  device.Launch(StreamId::kToHost, bed->Run(gate.Pass()));
  device.Launch(StreamId::kCompute, [](void*) { return absl::InternalError("broken"); });
  device.Notify(StreamId::kCompute, notes.Note(1));
  ASSERT_TRUE(notes.Await(1));
  device.Notify(StreamId::kToHost, notes.Note(2));
  WaitABit();
  EXPECT_THAT(notes.numbers(), testing::ElementsAre(1));
  gate.Open();
  EXPECT_FALSE(device.Synchronize().ok());
  EXPECT_THAT(notes.numbers(), testing::ElementsAre(1, 2));
}

}  // namespace spillway
