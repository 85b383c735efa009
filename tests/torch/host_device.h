// The least of a device for what LibTorch's side asks of one: memory, which is the host's.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#include "swap/device/device.h"

namespace spillway {

class HostDevice : public Device {
 public:
  ~HostDevice() override {
    for (char* data : allocated) std::free(data);
  }
  std::string name() const override { return "the host's memory"; }
  absl::StatusOr<char*> Allocate(uint64_t bytes) override {
    if (bytes > most_bytes) return absl::ResourceExhaustedError("no more");
    char* const data = static_cast<char*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    std::fill(data, data + bytes, 0x7f);
    allocated.insert(data);
    ++allocations;
    return data;
  }
  void Free(char* data) override {
    allocated.erase(data);
    std::free(data);
  }
  absl::Status RegisterHost(char*, uint64_t) override { return absl::OkStatus(); }
  void UnregisterHost(char*) override {}
  void Copy(StreamId, void*, const void*, uint64_t) override { std::abort(); }
  void Launch(StreamId, Kernel) override { std::abort(); }
  DeviceEvent Record(StreamId) override { return nullptr; }
  void Wait(StreamId, const DeviceEvent&) override {}
  void Notify(StreamId, Done) override { std::abort(); }
  absl::Status Synchronize() override {
    ++synchronizations;
    return error;
  }

  std::set<char*> allocated;
  int allocations = 0;
  int synchronizations = 0;
  uint64_t most_bytes = UINT64_MAX;
  absl::Status error;
};

}  // namespace spillway
