// LibTorch's CPU memory, counted against the device budget.
//
// Once installed every tensor LibTorch allocates on the CPU comes from here. Large
// blocks are kept for reuse, so that a step does not fault the same pages in again and
// again; what is kept counts as used, and is given back, no more of it than must be, before
// anything is refused.
#pragma once

#include <cstdint>

#include "swap/device/memory_budget.h"

namespace spillway {

// Any thread after Install.
class DeviceMemory {
 public:
  // Makes `budget` the one that LibTorch's tensors count against; it must outlive every
  // tensor. Past the limit an allocation throws a c10 error whose text names the budget.
  // Call before the first tensor; again with another budget once all of the first are gone.
  static void Install(MemoryBudget* budget);

  // Bytes beside tensors count against the budget, too: false where it has no room for them, when
  // nothing more is kept for reuse. The same budget is installed when they are given back.
  static bool TryCount(uint64_t bytes);
  static void Uncount(uint64_t bytes);

  // Bytes in live tensors now, and at their highest since the last reset; what is kept
  // for reuse is not counted.
  static uint64_t live_bytes();
  static uint64_t peak_live_bytes();
  static void ResetPeak();
  // Bytes that count as used now: live ones, and what is kept for reuse.
  static uint64_t held_bytes();

  // Live tensors leave the processors' caches.
  static void Evict();

  // Gives back what is kept for reuse.
  static void Trim();
};

}  // namespace spillway
