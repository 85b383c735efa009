#include "engine/torch/compute_place.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/torch/tensor_views.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"

namespace spillway {

torch::Tensor BringTo(const ComputePlace& place, const torch::Tensor& tensor) {
  if (!tensor.defined() || tensor.device() == place.where) return tensor;
  // A copy from memory that is not pinned would wait for the stream.
  const bool pin = place.stream.has_value() && tensor.device().is_cpu();
  return (pin ? tensor.pin_memory() : tensor).to(place.where, /*non_blocking=*/true);
}

absl::Status Settle(const ComputePlace& place) {
  return place.device == nullptr ? absl::OkStatus() : place.device->Synchronize();
}

absl::StatusOr<PlaceMemory> PlaceMemory::Create(const ComputePlace& place, uint64_t bytes) {
  const uint64_t whole = std::max<uint64_t>(64, (bytes + 63) / 64 * 64);
  if (place.device != nullptr) {
    ASSIGN_OR_RETURN(char* const data, place.device->Allocate(whole));
    return PlaceMemory(place.device, data);
  }
  return OfHost(std::aligned_alloc(64, whole), whole);
}

absl::StatusOr<PlaceMemory> PlaceMemory::CreateZeroed(const ComputePlace& place, uint64_t bytes) {
  if (place.device == nullptr) return OfHost(std::calloc(std::max<uint64_t>(1, bytes), 1), bytes);
  ASSIGN_OR_RETURN(PlaceMemory memory, Create(place, bytes));
  memory.Zero(place, bytes);
  return memory;
}

absl::StatusOr<PlaceMemory> PlaceMemory::OfHost(void* data, uint64_t bytes) {
  if (data != nullptr) return PlaceMemory(nullptr, static_cast<char*>(data));
  return absl::ResourceExhaustedError(
      absl::StrCat("the system has no ", FormatBytes(bytes), " left"));
}

void PlaceMemory::Zero(const ComputePlace& place, uint64_t bytes) {
  if (place.where.is_cpu()) {
    std::memset(data_, 0, bytes);
    return;
  }
  const ComputeScope scope(place);
  ViewAt(data_, {static_cast<int64_t>(bytes)}, {1}, torch::kUInt8, place.where).zero_();
}

PlaceMemory& PlaceMemory::operator=(PlaceMemory&& other) noexcept {
  if (this == &other) return *this;
  Free();
  device_ = other.device_;
  data_ = std::exchange(other.data_, nullptr);
  return *this;
}

void PlaceMemory::Free() {
  if (data_ == nullptr) return;
  if (device_ != nullptr) {
    device_->Free(data_);
  } else {
    std::free(data_);
  }
}

}  // namespace spillway
