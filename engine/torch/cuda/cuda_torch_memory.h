// Limits LibTorch's caching allocator of one GPU to its part of a run's device budget.
//
// The budget includes everything that the driver counts: the process's context, memory of
// libraries, our arenas, and LibTorch's segments. The first two are known only afterwards:
// overhead_bytes measures them, and the plan reserves that much.
#pragma once

#include <cstdint>
#include <string>

#include "engine/machine/device_choice.h"
#include "engine/torch/torch_memory.h"

namespace spillway {

// Compute thread. One at a time per GPU.
class CudaTorchMemory final : public TorchMemory {
 public:
  // Created after the context and before the first tensor.
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
  // Bytes of segments that LibTorch may have at once.
  uint64_t Limit() const;

  const ComputeGpu gpu_;
  uint64_t free_at_start_;  // of the GPU, after the creation of the context
  uint64_t overhead_;
  MemoryBudget* budget_ = nullptr;
};

}  // namespace spillway
