// A device whose copies take their time: a rate each way, and everything else as the device below
// does it. For tests of what is told about a link.
#pragma once

#include <chrono>
#include <thread>

#include "swap/device.h"
#include "swap/step_clock.h"

namespace spillway {

class SlowLinkDevice final : public Device {
 public:
  // `below` outlives it, and its streams are threads. A rate of 0: at once.
  SlowLinkDevice(Device* below, const LinkRates& rates) : below_(below), rates_(rates) {}

  std::string name() const override { return below_->name(); }
  absl::StatusOr<char*> Allocate(uint64_t bytes) override { return below_->Allocate(bytes); }
  void Free(char* data) override { below_->Free(data); }
  absl::Status RegisterHost(char* data, uint64_t bytes) override {
    return below_->RegisterHost(data, bytes);
  }
  void UnregisterHost(char* data) override { below_->UnregisterHost(data); }

  void Copy(StreamId stream, void* to, const void* from, uint64_t bytes) override {
    const double rate = stream == StreamId::kToDevice ? rates_.to_device_bytes_per_second
                                                      : rates_.to_host_bytes_per_second;
    const double seconds = rate > 0 ? static_cast<double>(bytes) / rate : 0;
    below_->Launch(stream, [seconds](void*) {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      return absl::OkStatus();
    });
    below_->Copy(stream, to, from, bytes);
  }
  void Launch(StreamId stream, Kernel kernel) override {
    below_->Launch(stream, std::move(kernel));
  }
  DeviceEvent Record(StreamId stream) override { return below_->Record(stream); }
  void Wait(StreamId stream, const DeviceEvent& event) override { below_->Wait(stream, event); }
  void Notify(StreamId stream, Done done) override { below_->Notify(stream, std::move(done)); }
  DeviceEvent Discard(char* data, uint64_t bytes, const std::vector<DeviceEvent>& after) override {
    return below_->Discard(data, bytes, after);
  }
  void BeginComputing() override { below_->BeginComputing(); }
  void* native_compute_stream() override { return below_->native_compute_stream(); }
  absl::Status Synchronize() override { return below_->Synchronize(); }

 private:
  Device* const below_;
  const LinkRates rates_;
};

}  // namespace spillway
