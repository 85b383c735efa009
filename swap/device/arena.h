// One anonymous mapping of exactly the planned size.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "swap/device/device.h"
#include "swap/device/memory_budget.h"

namespace spillway {

// Memory that storage (and, on CUDA, the GPU) reaches without a bounce copy, or a device's own:
// page-aligned, transparent huge pages where given, never moved, in no core dump and no forked
// child. Who uses which part of it is decided by the SwapPlan, not here. Counted against its
// budget, where it has one, for its whole life.
class Arena {
 public:
  // `budget`: null where who asks counts it. `size_bytes` is rounded up to whole pages; 0 gives an
  // arena without memory. kResourceExhausted, naming the flag to change where the budget has one,
  // when it or the system has too little. `pinned_for`, which outlives it and may be null: copies
  // from and to that device.
  static absl::StatusOr<std::unique_ptr<Arena>> Create(uint64_t size_bytes, MemoryBudget* budget,
                                                       Device* pinned_for = nullptr);
  // The device's memory. The device outlives it.
  static absl::StatusOr<std::unique_ptr<Arena>> CreateOn(Device* device, uint64_t size_bytes,
                                                         MemoryBudget* budget);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  char* data() const { return data_; }
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  Arena(char* data, uint64_t size_bytes, MemoryReservation reservation)
      : data_(data), size_bytes_(size_bytes), reservation_(std::move(reservation)) {}

  char* data_;
  uint64_t size_bytes_;
  MemoryReservation reservation_;
  Device* device_ = nullptr;  // whose memory it is
  Device* pinned_for_ = nullptr;
};

}  // namespace spillway
