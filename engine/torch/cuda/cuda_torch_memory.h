// LibTorch's caching allocator of one GPU, bounded to what a run's device budget leaves it.
//
// The budget is what the driver counts: the process's context, what libraries load and take for
// themselves, our arenas, and LibTorch's segments. The first two show when they have happened:
// overhead_bytes measures them, and the plan sets as much aside.
#pragma once

#include <cstdint>
#include <string>

#include "engine/machine/device_choice.h"
#include "engine/torch/torch_memory.h"

namespace spillway {

// Compute thread. One at a time a GPU.
class CudaTorchMemory final : public TorchMemory {
 public:
  // After the context is there and before the first tensor.
  explicit CudaTorchMemory(const ComputeGpu& gpu);
  ~CudaTorchMemory() override;

  void SetBudget(MemoryBudget* budget) override;
  uint64_t dry_run_bytes(uint64_t) const override { return gpu_.free_bytes; }
  uint64_t live_bytes() const override;
  uint64_t peak_live_bytes() const override;
  void ResetPeak() override;
  uint64_t held_bytes() const override;
  void Trim() override;
  uint64_t overhead_bytes() override;
  std::string RefusalText(const std::string& said) const override;

 private:
  // Segments that LibTorch may have at once.
  uint64_t Limit() const;

  const ComputeGpu gpu_;
  uint64_t free_at_start_;  // of the GPU, the context being there
  uint64_t overhead_;
  MemoryBudget* budget_ = nullptr;
};

}  // namespace spillway
