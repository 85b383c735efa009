// LibTorch's memory on its compute device: the host's (engine/torch/device_memory.h) or a GPU's.
// Compute thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "swap/device/memory_budget.h"

namespace spillway {

class TorchMemory {
 public:
  virtual ~TorchMemory() = default;

  // Counts tensors against `budget` from now on, which outlives them. On a GPU they get its current
  // free memory, since arenas were reserved before. Null: no limit. REQUIRES: the host's live
  // tensors fit.
  virtual void SetBudget(MemoryBudget* budget) = 0;
  // SetBudget if all live tensors fit; otherwise an error of exit code 3.
  absl::Status MoveTo(MemoryBudget* budget);
  // Counts other memory against the budget, too, such as a dry run's replacement of an arena: false
  // if there is no room. If arenas are not in the budget there is always room.
  virtual bool TryCount(uint64_t bytes) { return true; }
  virtual void Uncount(uint64_t bytes) {}
  // Memory for a dry run: a budget of `device_memory_bytes`, or more if it is available, so that a
  // refusal can name the need. In host memory that is slightly more than both budgets, which are
  // unused by then.
  uint64_t DryRunBytes(uint64_t device_memory_bytes, uint64_t host_memory_bytes) const {
    return std::max(device_memory_bytes, dry_run_bytes(device_memory_bytes + host_memory_bytes));
  }

  // Bytes in live tensors now, and their maximum since the last ResetPeak.
  virtual uint64_t live_bytes() const = 0;
  virtual uint64_t peak_live_bytes() const = 0;
  virtual void ResetPeak() = 0;
  // Removes live tensors from the processors' caches, if they are in host memory.
  virtual void Evict() {}
  // Bytes of live tensors and cached blocks.
  virtual uint64_t held_bytes() const = 0;
  // Frees cached blocks.
  virtual void Trim() = 0;

  // Device memory beside tensors and arenas, as observed so far: a GPU's context, memory of
  // libraries, gaps between tensors. Call after a dry run, when no tensor exists.
  virtual uint64_t overhead_bytes() = 0;

  // Text for a refused allocation: the bytes needed and the flag to change. `said`: LibTorch's
  // message.
  virtual std::string RefusalText(const std::string& said) const = 0;

 private:
  // Available memory for a dry run. `budgets_bytes`: sum of both budgets.
  virtual uint64_t dry_run_bytes(uint64_t budgets_bytes) const = 0;
};

// The host's memory, which DeviceMemory counts.
TorchMemory* HostTorchMemory();

}  // namespace spillway
