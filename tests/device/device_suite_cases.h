// Cases of tests/device/device_suite.h: memory, streams and events.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "tests/device/device_bed.h"
#include "tests/device/device_suite_testing.h"

namespace spillway {

// --------------------------------------------------------------------------------- Memory

TEST_P(DeviceConformance, IsNamed) {
  MAKE_BED_OR_SKIP();
  EXPECT_FALSE(device.name().empty());
}

TEST_P(DeviceConformance, AllocationsAreAlignedAndApart) {
  MAKE_BED_OR_SKIP();
  const uint64_t sizes[] = {1, 100, 4096, 5000, 1 << 20};
  std::vector<std::pair<uintptr_t, uint64_t>> ranges;
  for (uint64_t size : sizes) {
    auto data = device.Allocate(size);
    ASSERT_TRUE(data.ok()) << data.status();
    ranges.emplace_back(reinterpret_cast<uintptr_t>(*data), size);
    EXPECT_EQ(ranges.back().first % 256, 0);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 0; i + 1 < ranges.size(); ++i) {
    EXPECT_LE(ranges[i].first + ranges[i].second, ranges[i + 1].first);
  }
  for (const auto& [start, size] : ranges) device.Free(reinterpret_cast<char*>(start));
}

TEST_P(DeviceConformance, TooLargeAnAllocationIsRefusedAndTheDeviceGoesOn) {
  MAKE_BED_OR_SKIP();
  const auto refused = device.Allocate(uint64_t{1} << 50);
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), testing::HasSubstr("free"));
  auto small = device.Allocate(4096);
  ASSERT_TRUE(small.ok()) << small.status();
  device.Free(*small);
  EXPECT_TRUE(device.Synchronize().ok());
}

TEST_P(DeviceConformance, HostMemoryIsRegisteredAgainAfterItWasNot) {
  MAKE_BED_OR_SKIP();
  DeviceMemory memory(&device, 4096);
  for (int round = 0; round < 3; ++round) {
    PinnedMemory host(&device, 4096);
    std::fill_n(host.data(), 4096, static_cast<char>(round));
    device.Copy(StreamId::kToDevice, memory.data(), host.data(), 4096);
    ASSERT_TRUE(device.Synchronize().ok());
  }
}

// --------------------------------------------------------------------- One stream's order

TEST_P(DeviceConformance, BytesGoThereAndComeBack) {
  MAKE_BED_OR_SKIP();
  constexpr uint64_t kBytes = 100'003;
  PinnedMemory host(&device, 2 * kBytes);
  DeviceMemory first(&device, kBytes);
  DeviceMemory second(&device, kBytes + 1);
  const std::vector<char> bytes = RandomBytes(kBytes, 1);
  for (StreamId stream : kEveryStream) {
    std::copy(bytes.begin(), bytes.end(), host.data());
    std::fill_n(host.data() + kBytes, kBytes, '\xee');
    device.Copy(stream, first.data(), host.data(), kBytes);
    device.Copy(stream, second.data() + 1, first.data(), kBytes);
    device.Copy(stream, host.data() + kBytes, second.data() + 1, kBytes);
    ASSERT_TRUE(device.Synchronize().ok());
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), host.data() + kBytes));
  }
}

TEST_P(DeviceConformance, AStreamDoesWhatItWasGivenInOrder) {
  MAKE_BED_OR_SKIP();
  constexpr int kRounds = 50;
  constexpr uint64_t kBytes = 1000;
  PinnedMemory in(&device, kBytes * kRounds);
  PinnedMemory out(&device, kBytes * kRounds);
  DeviceMemory memory(&device, kBytes);
  for (int i = 0; i < kRounds; ++i) {
    std::fill_n(in.data() + i * kBytes, kBytes, static_cast<char>(i));
    device.Copy(StreamId::kToDevice, memory.data(), in.data() + i * kBytes, kBytes);
    device.Launch(StreamId::kToDevice, bed->Add(memory.data(), kBytes, 100));
    device.Copy(StreamId::kToDevice, out.data() + i * kBytes, memory.data(), kBytes);
  }
  ASSERT_TRUE(device.Synchronize().ok());
  for (int i = 0; i < kRounds; ++i) {
    const char* got = out.data() + i * kBytes;
    const int wrong = std::count_if(got, got + kBytes,
                                    [&](char byte) { return byte != static_cast<char>(i + 100); });
    ASSERT_EQ(wrong, 0) << "round " << i;
  }
}

// --------------------------------------------------------------------------------- Events

TEST_P(DeviceConformance, EveryStreamThatWaitsForAnEventGoesOnAfterIt) {
  MAKE_BED_OR_SKIP();
  Gate gate;
  Notes notes;
  device.Launch(StreamId::kToDevice, bed->Run(gate.Pass()));
  const DeviceEvent event = device.Record(StreamId::kToDevice);
  device.Wait(StreamId::kCompute, event);
  device.Wait(StreamId::kToHost, event);
  device.Wait(StreamId::kToHost, event);
  device.Notify(StreamId::kCompute, notes.Note(1));
  device.Notify(StreamId::kToHost, notes.Note(2));
  WaitABit();
  EXPECT_THAT(notes.numbers(), testing::IsEmpty());
  gate.Open();
  ASSERT_TRUE(notes.Await(2));
  EXPECT_THAT(notes.numbers(), testing::UnorderedElementsAre(1, 2));
  EXPECT_TRUE(device.Synchronize().ok());
}

TEST_P(DeviceConformance, AnEventIsAPlaceAndNotWhatComesAfterIt) {
  MAKE_BED_OR_SKIP();
  Gate gate;
  Notes notes;
  const DeviceEvent before = device.Record(StreamId::kToDevice);
  device.Launch(StreamId::kToDevice, bed->Run(gate.Pass()));
  device.Wait(StreamId::kCompute, before);
  device.Notify(StreamId::kCompute, notes.Note(1));
  EXPECT_TRUE(notes.Await(1));
  gate.Open();
  EXPECT_TRUE(device.Synchronize().ok());
}

TEST_P(DeviceConformance, NoEventAndAnEventOfTheSameStreamHoldNothingUp) {
  MAKE_BED_OR_SKIP();
  Notes notes;
  for (StreamId stream : kEveryStream) {
    device.Wait(stream, nullptr);
    const DeviceEvent own = device.Record(stream);
    device.Wait(stream, own);
    device.Notify(stream, notes.Note(1));
  }
  EXPECT_TRUE(notes.Await(3));
  EXPECT_TRUE(device.Synchronize().ok());
}

TEST_P(DeviceConformance, AWaitHoldsThoughItsEventIsGoneAndAnotherWasRecorded) {
  MAKE_BED_OR_SKIP();
  Gate gate;
  Notes notes;
  device.Launch(StreamId::kToDevice, bed->Run(gate.Pass()));
  DeviceEvent event = device.Record(StreamId::kToDevice);
  device.Wait(StreamId::kCompute, event);
  event.reset();
  for (int i = 0; i < 10; ++i) device.Record(StreamId::kToHost).reset();
  device.Notify(StreamId::kCompute, notes.Note(1));
  WaitABit();
  EXPECT_THAT(notes.numbers(), testing::IsEmpty());
  gate.Open();
  EXPECT_TRUE(notes.Await(1));
  EXPECT_TRUE(device.Synchronize().ok());
}

// Bytes through all three streams, as the mover sends them: to the device, arithmetic, back.
TEST_P(DeviceConformance, EventsCarryBytesFromStreamToStream) {
  MAKE_BED_OR_SKIP();
  constexpr int kBuffers = 40;
  constexpr uint64_t kBytes = 3000;
  PinnedMemory host(&device, kBuffers * kBytes);
  DeviceMemory memory(&device, kBuffers * kBytes);
  const std::vector<char> bytes = RandomBytes(kBuffers * kBytes, 2);
  std::copy(bytes.begin(), bytes.end(), host.data());
  for (int i = 0; i < kBuffers; ++i) {
    char* there = memory.data() + i * kBytes;
    device.Copy(StreamId::kToDevice, there, host.data() + i * kBytes, kBytes);
    device.Wait(StreamId::kCompute, device.Record(StreamId::kToDevice));
    device.Launch(StreamId::kCompute, bed->Add(there, kBytes, 5));
    device.Wait(StreamId::kToHost, device.Record(StreamId::kCompute));
    device.Copy(StreamId::kToHost, host.data() + i * kBytes, there, kBytes);
  }
  ASSERT_TRUE(device.Synchronize().ok());
  int wrong = 0;
  for (uint64_t i = 0; i < bytes.size(); ++i) {
    wrong += host.data()[i] != static_cast<char>(bytes[i] + 5);
  }
  EXPECT_EQ(wrong, 0);
}

// Copies and arithmetic drawn at random, ordered by events and nothing else, give what they
// give one after the other.
TEST_P(DeviceConformance, RandomWorkOrderedByEventsIsAsIfDoneInOrder) {
  MAKE_BED_OR_SKIP();
  constexpr int kBuffers = 6;  // the first half on the host
  constexpr uint64_t kBytes = 2000;
  std::mt19937 random(7);
  PinnedMemory host(&device, kBuffers / 2 * kBytes);
  DeviceMemory memory(&device, kBuffers / 2 * kBytes);
  std::vector<std::vector<char>> expected;
  std::vector<char*> data;
  for (int i = 0; i < kBuffers; ++i) {
    const bool on_host = i < kBuffers / 2;
    data.push_back(on_host ? host.data() + i * kBytes : memory.data() + (i - 3) * kBytes);
    expected.push_back(RandomBytes(kBytes, on_host ? i : i - 3));
    if (on_host) {
      std::copy(expected[i].begin(), expected[i].end(), data[i]);
    } else {
      device.Copy(StreamId::kToDevice, data[i], data[i - 3], kBytes);
    }
  }
  std::vector<DeviceEvent> last(kBuffers, device.Record(StreamId::kToDevice));
  for (int i = 0; i < 300; ++i) {
    const StreamId stream = kEveryStream[random() % 3];
    const int to = random() % kBuffers;
    int from = random() % kBuffers;
    if (to < 3 && from < 3) from += 3;
    device.Wait(stream, last[to]);
    device.Wait(stream, last[from]);
    if (to == from) {
      device.Launch(stream, bed->Add(data[to], kBytes, static_cast<char>(i)));
      for (char& byte : expected[to]) byte = static_cast<char>(byte + i);
    } else {
      device.Copy(stream, data[to], data[from], kBytes);
      expected[to] = expected[from];
    }
    last[to] = last[from] = device.Record(stream);
  }
  last.clear();
  ASSERT_TRUE(device.Synchronize().ok());
  for (int i = 0; i < kBuffers; ++i) {
    if (i >= 3) {
      device.Copy(StreamId::kToHost, host.data(), data[i], kBytes);
      ASSERT_TRUE(device.Synchronize().ok());
    }
    const char* got = i < 3 ? data[i] : host.data();
    EXPECT_TRUE(std::equal(expected[i].begin(), expected[i].end(), got)) << "buffer " << i;
  }
}

}  // namespace spillway
