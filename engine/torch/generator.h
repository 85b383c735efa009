// A trained model, asked for its next token, layer by layer under the same budgets.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model.h"
#include "engine/model_description.h"
#include "engine/weight_source.h"
#include "io/run_directory.h"
#include "swap/swap_manager.h"

namespace spillway {

struct GeneratorOptions {
  DType dtype = DType::kBFloat16;
  int threads = 1;
  uint64_t device_memory_bytes = uint64_t{512} << 20;
  uint64_t host_memory_bytes = uint64_t{512} << 20;
  // A directory of our own below one of these holds what does not fit; may be empty.
  std::vector<std::string> swap_paths;
};

// How the next token is drawn.
struct SamplingOptions {
  double temperature = 0.8;  // 0: the likeliest
  int64_t top_k = 50;        // 0: all
  uint64_t seed = 42;
};

// Compute thread only.
class Generator {
 public:
  // Loads `weights`, streamed. The model's loss unit must have Logits. `model` outlives it.
  static absl::StatusOr<std::unique_ptr<Generator>> Create(const Model& model,
                                                           WeightSource* weights,
                                                           const GeneratorOptions& options);
  ~Generator();

  // The logits [classes], fp32, after the last of `tokens` (at least one, at most the
  // model's positions). The whole context is computed anew.
  absl::StatusOr<torch::Tensor> NextLogits(const std::vector<int64_t>& tokens);

  // Draws token number `index` of a text from its logits.
  static int64_t Sample(const torch::Tensor& logits, const SamplingOptions& options,
                        uint64_t index);

 private:
  explicit Generator(const Model& model) : model_(model) {}
  std::vector<torch::Tensor> TensorsOf(int unit, const OpBuffers& buffers) const;

  const Model& model_;
  ModelDescription description_;
  DType dtype_ = DType::kBFloat16;
  std::unique_ptr<MemoryBudget> host_budget_, device_budget_;
  std::unique_ptr<Arena> host_arena_, device_arena_;
  std::vector<std::unique_ptr<RunDirectory>> directories_;
  std::unique_ptr<SwapStore> store_;
  std::unique_ptr<SwapManager> manager_;
};

}  // namespace spillway
