// The place where LibTorch computes: host memory, or a device. A plain value; its pointers are
// owned by the opener of the device (engine/torch/open_compute.h), or by a test.
//
//   CPU          where = CPU, device = null, no stream
//   a GPU        where = cuda:0, its device (swap/device/cuda/cuda_device.h) and its compute stream
//   test device  where = CPU, device = tests/device/test_device.h, no stream: LibTorch computes
//                on the calling thread, on weights at addresses of the device's
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/torch/torch_memory.h"
#include "swap/device/device.h"

namespace spillway {

struct ComputePlace {
  torch::Device where = torch::kCPU;
  // The device whose memory has weights and gradient sums. Null: the host.
  Device* device = nullptr;
  // The device's compute stream, which receives LibTorch's work. None: it computes synchronously.
  std::optional<c10::Stream> stream = std::nullopt;
  TorchMemory* memory = HostTorchMemory();

  bool computes_at_once() const { return !stream.has_value() && where.is_cpu(); }
};

// Makes the place's stream LibTorch's current one during its lifetime. Autograd's threads use the
// stream of each forward.
class ComputeScope {
 public:
  explicit ComputeScope(const ComputePlace& place) : guard_(place.stream) {}

 private:
  c10::OptionalStreamGuard guard_;
};

// Copies `tensor` to the place, in the current stream and without waiting.
torch::Tensor BringTo(const ComputePlace& place, const torch::Tensor& tensor);

// Waits until all work in the device's streams is done; returns at once without a device.
absl::Status Settle(const ComputePlace& place);

// Memory of a place that neither LibTorch nor a budget counts: replaces an arena in dry runs.
// Move-only.
class PlaceMemory {
 public:
  // Contents are undefined; kResourceExhausted if there is too little.
  static absl::StatusOr<PlaceMemory> Create(const ComputePlace& place, uint64_t bytes);
  // All zero. In host memory, pages that are never written take no memory.
  static absl::StatusOr<PlaceMemory> CreateZeroed(const ComputePlace& place, uint64_t bytes);
  ~PlaceMemory() { Free(); }
  PlaceMemory(PlaceMemory&& other) noexcept { *this = std::move(other); }
  PlaceMemory& operator=(PlaceMemory&& other) noexcept;

  // Writes zeros to the first `bytes`.
  void Zero(const ComputePlace& place, uint64_t bytes);
  char* data() const { return data_; }

 private:
  PlaceMemory(Device* device, char* data) : device_(device), data_(data) {}
  static absl::StatusOr<PlaceMemory> OfHost(void* data, uint64_t bytes);
  void Free();

  Device* device_ = nullptr;
  char* data_ = nullptr;
};

}  // namespace spillway
