// LibTorch's memory where it computes: the host's (engine/torch/device_memory.h) or a GPU's.
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

  // Tensors count against `budget` from now on, which outlives them. Of a GPU they get what is
  // free of it now: arenas have been reserved before. Null: no limit. REQUIRES: the host's live
  // ones fit.
  virtual void SetBudget(MemoryBudget* budget) = 0;
  // The same where all that is alive fits; an error for which ExitCodeOf gives 3 where it does not.
  absl::Status MoveTo(MemoryBudget* budget);
  // Counts memory that is no tensor's against the budget, too, as of what stands in for an arena:
  // false where it has no room. Where arenas are not in the budget there is always some.
  virtual bool TryCount(uint64_t bytes) { return true; }
  virtual void Uncount(uint64_t bytes) {}
  // What a dry run may take: a budget of `device_memory_bytes`, or more where the memory has it, so
  // that a refusal can say how much is needed. Of the host's memory that is little more than both
  // budgets, which nothing else has taken by then.
  uint64_t DryRunBytes(uint64_t device_memory_bytes, uint64_t host_memory_bytes) const {
    return std::max(device_memory_bytes, dry_run_bytes(device_memory_bytes + host_memory_bytes));
  }

  // Bytes in live tensors now, and at their highest since the last ResetPeak.
  virtual uint64_t live_bytes() const = 0;
  virtual uint64_t peak_live_bytes() const = 0;
  virtual void ResetPeak() = 0;
  // Live ones leave the processors' caches, where they are in the host's memory.
  virtual void Evict() {}
  // Live ones, and what is kept for reuse.
  virtual uint64_t held_bytes() const = 0;
  // Gives back what is kept for reuse.
  virtual void Trim() = 0;

  // Device memory that is taken beside tensors and arenas, as far as it has shown: a GPU's
  // context, what libraries take for themselves, gaps between tensors. To be asked for after a
  // dry run, when no tensor is left.
  virtual uint64_t overhead_bytes() = 0;

  // Of an allocation that was refused: what was needed and the flag to change. `said`:
  // LibTorch's own words.
  virtual std::string RefusalText(const std::string& said) const = 0;

 private:
  // What the memory has for a dry run. `budgets_bytes`: of both.
  virtual uint64_t dry_run_bytes(uint64_t budgets_bytes) const = 0;
};

// The host's, which DeviceMemory counts.
TorchMemory* HostTorchMemory();

}  // namespace spillway
