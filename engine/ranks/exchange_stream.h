// Where whole units are exchanged: in the host's memory, or in a device's, in its stream of
// exchanges. What stands on it is written once for both.
//
// Every call returns when its work is done, so that the next may be another rank's. A value; one
// thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "swap/device/device.h"

namespace spillway {

class ExchangeStream {
 public:
  // The host's memory.
  ExchangeStream() = default;
  // A device's. `page`: kPageBytes of the host's that it knows (RegisterHost). Both outlive it.
  ExchangeStream(Device* device, char* page) : device_(device), page_(page) {}
  static constexpr uint64_t kPageBytes = 4096;

  // What is to be done with memory of its own: `work` gets the native stream into which it puts
  // that, or null, and then does it.
  absl::Status Do(const Device::Kernel& work) const {
    if (device_ == nullptr) return work(nullptr);
    device_->Launch(StreamId::kExchange, work);
    return Await();
  }

  // Until all is there that was put into the stream so far: others may look at its memory.
  absl::Status Await() const {
    return device_ == nullptr ? absl::OkStatus() : AwaitStream(*device_, StreamId::kExchange);
  }

  // Within its memory, or between that and memory that the device knows.
  absl::Status Copy(void* to, const void* from, uint64_t bytes) const;

  // Of at most a page, into any memory of the host's.
  absl::Status Read(void* to, const void* from, uint64_t bytes) const;

  Device* device() const { return device_; }

 private:
  Device* device_ = nullptr;  // null: the host's memory
  char* page_ = nullptr;
};

}  // namespace spillway
