// Counts LibTorch's CPU memory against the device budget.
//
// Once installed, this allocates all of LibTorch's CPU tensors. Large blocks are cached for reuse,
// so that a step does not fault in the same pages repeatedly. Cached blocks count as used, and as
// many as necessary are freed before an allocation is refused.
#pragma once

#include <cstdint>

#include "swap/device/memory_budget.h"

namespace spillway {

// Any thread after Install.
class DeviceMemory {
 public:
  // Sets the budget of LibTorch's tensors, which must outlive them. Beyond its limit an allocation
  // throws a c10 error whose text names the budget. Call before the first tensor; again with
  // another budget once all tensors of the first are gone.
  static void Install(MemoryBudget* budget);

  // Counts bytes that are not tensors against the budget, after freeing cached blocks if necessary;
  // false if it has no room. They must be uncounted while the same budget is installed.
  static bool TryCount(uint64_t bytes);
  static void Uncount(uint64_t bytes);

  // Bytes in live tensors now, and their maximum since the last reset; without cached blocks.
  static uint64_t live_bytes();
  static uint64_t peak_live_bytes();
  static void ResetPeak();
  // Bytes that count as used now: live tensors and cached blocks.
  static uint64_t held_bytes();

  // Removes live tensors from the processors' caches.
  static void Evict();

  // Frees cached blocks.
  static void Trim();
};

}  // namespace spillway
