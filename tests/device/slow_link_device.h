// A device whose copies take their time: a rate each way; whose kernels may take longer than they
// do; and everything else as the device below does it. For tests of what is told about a device.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "swap/device/device.h"
#include "swap/plan/step_clock.h"

namespace spillway {

class SlowLinkDevice final : public Device {
 public:
  // `below` outlives it, and its streams are threads. A rate of 0: at once.
  SlowLinkDevice(Device* below, const LinkRates& rates) : below_(below), rates_(rates) {}

  // So many times as long as they do take; 0: no time, and nothing is done.
  void SetKernelsTake(double times) { kernels_take_ = times; }

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
    const double times = kernels_take_;
    if (times == 1) return below_->Launch(stream, std::move(kernel));
    below_->Launch(stream, [times, kernel = std::move(kernel)](void* native_stream) {
      if (times == 0) return absl::OkStatus();
      const auto began = std::chrono::steady_clock::now();
      absl::Status status = kernel(native_stream);
      std::this_thread::sleep_for((std::chrono::steady_clock::now() - began) * (times - 1));
      return status;
    });
  }
  DeviceEvent Record(StreamId stream) override { return below_->Record(stream); }
  void Wait(StreamId stream, const DeviceEvent& event) override { below_->Wait(stream, event); }
  void Notify(StreamId stream, Done done) override { below_->Notify(stream, std::move(done)); }
  DeviceEvent Discard(char* data, uint64_t bytes, const std::vector<DeviceEvent>& after) override {
    return below_->Discard(data, bytes, after);
  }
  void BeginComputing(StreamId stream) override { below_->BeginComputing(stream); }
  void* native_compute_stream() override { return below_->native_compute_stream(); }
  absl::Status Synchronize() override { return below_->Synchronize(); }

 private:
  Device* const below_;
  const LinkRates rates_;
  std::atomic<double> kernels_take_ = 1;
};

}  // namespace spillway
