// The memory in which whole units are exchanged: the host's, or a device's through its exchange
// stream. One implementation of the exchanges serves both.
//
// Every call returns when its work is done, so that other ranks may use the result. A value; one
// thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "swap/device/device.h"

namespace spillway {

class ExchangeStream {
 public:
  // Exchanges in the host's memory.
  ExchangeStream() = default;
  // Exchanges in a device's memory. `page`: kPageBytes of host memory registered with it
  // (RegisterHost). Both outlive the stream.
  ExchangeStream(Device* device, char* page) : device_(device), page_(page) {}
  static constexpr uint64_t kPageBytes = 4096;

  // Runs `work` on the device's native stream, into which it puts its kernels, or for the host's
  // memory with null, when it computes before it returns.
  absl::Status Do(const Device::Kernel& work) const {
    if (device_ == nullptr) return work(nullptr);
    device_->Launch(StreamId::kExchange, work);
    return Await();
  }

  // Waits until all work put into the stream so far is done, so that others may read its memory.
  absl::Status Await() const {
    return device_ == nullptr ? absl::OkStatus() : AwaitStream(*device_, StreamId::kExchange);
  }

  // Copies within its memory, or between it and host memory registered with the device.
  absl::Status Copy(void* to, const void* from, uint64_t bytes) const;

  // Reads at most a page into any host memory.
  absl::Status Read(void* to, const void* from, uint64_t bytes) const;

  Device* device() const { return device_; }

 private:
  Device* device_ = nullptr;  // null: the host's memory
  char* page_ = nullptr;
};

}  // namespace spillway
