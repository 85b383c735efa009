// Where a generator's weights and key-value caches live: in the budgets, below the swap paths, or,
// of weights, in the model's own files.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/generation/generator_options.h"
#include "engine/generation/kept_positions.h"
#include "engine/generation/text_units.h"
#include "engine/weights/weight_source.h"
#include "swap/device/arena.h"
#include "swap/device/memory_budget.h"
#include "swap/mover/swap_manager.h"
#include "swap/store/swap_store.h"

namespace spillway {

// Compute thread. While it lives LibTorch's memory counts against its budget.
class TextMemory {
 public:
  // `kept`: of texts of up to `text_positions`. `compute_bytes`: of the device's memory, beside
  // both. Reads all weights but those that stay in files. A status that ends in exit code 3 where
  // the budgets are too small, with the smallest that would do.
  static absl::StatusOr<std::unique_ptr<TextMemory>> Open(
      const TextUnits& units, const KeptShape& kept, int64_t text_positions, uint64_t compute_bytes,
      const GeneratorOptions& options, WeightSource* weights);
  ~TextMemory();
  TextMemory(const TextMemory&) = delete;
  TextMemory& operator=(const TextMemory&) = delete;

  SwapManager& manager() { return *manager_; }
  KeptPositions* kept() { return kept_.get(); }  // null: nothing is kept

 private:
  explicit TextMemory(const GeneratorOptions& options)
      : host_budget_("host", options.host_memory_bytes),
        device_budget_("device", options.device_memory_bytes),
        torch_memory_(options.place.memory) {}
  absl::Status PlanAndOpen(const TextUnits& units, const KeptShape& kept_shape,
                           int64_t text_positions, uint64_t compute_bytes,
                           const GeneratorOptions& options, const WeightSource& weights);
  absl::Status Load(const ModelDescription& model, DType dtype, WeightSource* weights);

  MemoryBudget host_budget_, device_budget_;
  TorchMemory* const torch_memory_;
  std::unique_ptr<Arena> host_arena_, device_arena_;
  std::unique_ptr<SwapStore> store_;
  std::unique_ptr<SwapManager> manager_;
  std::unique_ptr<KeptPositions> kept_;
};

}  // namespace spillway
