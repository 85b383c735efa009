// What the cases of the device suite share.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "io/base/check.h"
#include "io/base/mutex.h"
#include "swap/device/device.h"

namespace spillway {

inline constexpr StreamId kEveryStream[] = {StreamId::kCompute, StreamId::kToDevice,
                                            StreamId::kToHost, StreamId::kExchange};

// Registered host memory of some pages.
class PinnedMemory {
 public:
  PinnedMemory(Device* device, uint64_t bytes)
      : device_(device), bytes_((bytes + 4095) / 4096 * 4096) {
    data_ = static_cast<char*>(std::aligned_alloc(4096, bytes_));
    const absl::Status registered = device_->RegisterHost(data_, bytes_);
    EXPECT_TRUE(registered.ok()) << registered;
  }
  ~PinnedMemory() {
    device_->UnregisterHost(data_);
    std::free(data_);
  }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  char* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  Device* const device_;
  const uint64_t bytes_;
  char* data_;
};

class DeviceMemory {
 public:
  DeviceMemory(Device* device, uint64_t bytes) : device_(device) {
    auto data = device->Allocate(bytes);
    EXPECT_TRUE(data.ok()) << data.status();
    SPILLWAY_CHECK(data.ok());
    data_ = *data;
  }
  ~DeviceMemory() { device_->Free(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  char* data() const { return data_; }

 private:
  Device* const device_;
  char* data_;
};

// Keeps a stream from going on: `Pass` runs in it, and waits for Open.
class Gate {
 public:
  ~Gate() { Open(); }
  void Open() {
    MutexLock lock(inside_->mutex);
    inside_->open = true;
    inside_->changed.NotifyAll();
  }
  std::function<void()> Pass() const {
    return [inside = inside_] {
      MutexLock lock(inside->mutex);
      while (!inside->open) inside->changed.Wait(inside->mutex);
    };
  }

 private:
  struct Inside {
    Mutex mutex;
    CondVar changed;
    bool open = false;
  };
  std::shared_ptr<Inside> inside_ = std::make_shared<Inside>();
};

// What notes have said, in the order in which they came. Any thread.
class Notes {
 public:
  // A note of this number.
  Device::Done Note(int number) {
    return [this, number](const absl::Status& status) {
      MutexLock lock(mutex_);
      came_.push_back({number, status});
      changed_.NotifyAll();
    };
  }

  struct Came {
    int number;
    absl::Status status;
  };
  std::vector<Came> came() {
    MutexLock lock(mutex_);
    return came_;
  }
  std::vector<int> numbers() {
    std::vector<int> numbers;
    for (const Came& came : came()) numbers.push_back(came.number);
    return numbers;
  }
  // Waits until so many have come; false when they do not.
  bool Await(size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    MutexLock lock(mutex_);
    while (came_.size() < count) {
      if (!changed_.WaitUntil(mutex_, deadline)) return false;
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Came> came_;
};

// Long enough that what may happen at all has most likely happened.
inline void WaitABit() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

inline std::vector<char> RandomBytes(uint64_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<char> data(bytes);
  for (char& byte : data) byte = static_cast<char>(random());
  return data;
}

}  // namespace spillway
