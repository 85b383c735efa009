// Where LibTorch computes: in the host's memory, or in a device's. A plain value; what it points
// to is owned by whoever opened the device (engine/torch/open_compute.h), or a test.
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
  // Whose memory holds weights and gradient sums. Null: the host's.
  Device* device = nullptr;
  // The device's compute stream, into which LibTorch puts its work. None: it computes at once.
  std::optional<c10::Stream> stream = std::nullopt;
  TorchMemory* memory = HostTorchMemory();

  bool computes_at_once() const { return !stream.has_value() && where.is_cpu(); }
};

// While it lives LibTorch's current stream is the place's. Autograd's threads take over the
// stream of each forward by themselves.
class ComputeScope {
 public:
  explicit ComputeScope(const ComputePlace& place) : guard_(place.stream) {}

 private:
  c10::OptionalStreamGuard guard_;
};

// `tensor` there. Puts a copy into the current stream and does not wait for it.
torch::Tensor BringTo(const ComputePlace& place, const torch::Tensor& tensor);

// Waits until all that was put into the device's streams is done; at once where none is.
absl::Status Settle(const ComputePlace& place);

// Memory of a place that neither LibTorch nor a budget counts: stands in for an arena in dry
// runs. Move-only.
class PlaceMemory {
 public:
  // Contents undefined; kResourceExhausted where there is too little.
  static absl::StatusOr<PlaceMemory> Create(const ComputePlace& place, uint64_t bytes);
  // All zero. Of the host's, what nobody writes to takes no memory.
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
