#include "engine/torch/torch_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/machine/memory_limits.h"
#include "engine/torch/device_memory.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

// Part of a process's memory beside its budgets (kProcessBaseBytes): half of that is in use before
// the first step, and small runs are measured with any budgets.
constexpr uint64_t kSpareBytes = uint64_t{64} << 20;

class HostMemory final : public TorchMemory {
 public:
  void SetBudget(MemoryBudget* budget) override { DeviceMemory::Install(budget); }
  bool TryCount(uint64_t bytes) override { return DeviceMemory::TryCount(bytes); }
  void Uncount(uint64_t bytes) override { DeviceMemory::Uncount(bytes); }
  uint64_t dry_run_bytes(uint64_t budgets_bytes) const override {
    return std::min(budgets_bytes + kSpareBytes, AvailableMemoryBytes() / 2);
  }
  uint64_t live_bytes() const override { return DeviceMemory::live_bytes(); }
  uint64_t peak_live_bytes() const override { return DeviceMemory::peak_live_bytes(); }
  void ResetPeak() override { DeviceMemory::ResetPeak(); }
  void Evict() override { DeviceMemory::Evict(); }
  uint64_t held_bytes() const override { return DeviceMemory::held_bytes(); }
  void Trim() override { DeviceMemory::Trim(); }
  uint64_t overhead_bytes() override { return 0; }
  std::string RefusalText(const std::string& said) const override { return said; }
};

}  // namespace

absl::Status TorchMemory::MoveTo(MemoryBudget* budget) {
  const uint64_t live = live_bytes(), room = budget->limit_bytes() - budget->used_bytes();
  if (live > room) {
    return DoesNotFitError(
        absl::StrCat("tensors that the program itself holds (its dataset, units and caller) take ",
                     FormatBytes(live), ", for which there are ", FormatBytes(room),
                     ": hold fewer, or raise --device-memory by ", FormatBytes(live - room)));
  }
  SetBudget(budget);
  return absl::OkStatus();
}

TorchMemory* HostTorchMemory() {
  static HostMemory memory;
  return &memory;
}

}  // namespace spillway
