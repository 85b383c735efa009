// A model that continues a text token by token, layer by layer under the same budgets.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_description.h"
#include "engine/torch/compute_place.h"
#include "engine/torch/model.h"
#include "engine/weights/weight_source.h"
#include "swap/mover/swap_manager.h"

namespace spillway {

struct GeneratorOptions {
  DType dtype = DType::kBFloat16;
  int threads = 1;
  uint64_t device_memory_bytes = uint64_t{512} << 20;
  uint64_t host_memory_bytes = uint64_t{512} << 20;
  // What does not fit is kept below these; may be empty. Nothing stays there, whatever happens.
  std::vector<std::string> swap_paths;
  IoEngineOptions io;
  ComputePlace place;  // what it points to outlives the generator

  // The positions that the model knows: its longest text.
  int64_t positions = 1024;
  // What is going to be asked: the tokens of the first Append, and those appended later,
  // one at a time. Memory is set aside for them.
  int64_t prompt_tokens = 1;
  int64_t new_tokens = 0;
};

// Compute thread only. One at a time: LibTorch's memory counts against the newest one's budget.
class Generator {
 public:
  // Loads `weights`, streamed. The model's loss unit must have Logits. `model` outlives it.
  // kInvalidArgument for a prompt longer than the model's positions; a status that ends in
  // exit code 3 when it does not fit the budgets, with the smallest that would do.
  static absl::StatusOr<std::unique_ptr<Generator>> Create(const Model& model,
                                                           WeightSource* weights,
                                                           const GeneratorOptions& options);
  ~Generator();

  // Adds `tokens` to the text; the logits [classes], fp32, of the token after them.
  //
  // Where every unit has a ForwardNext only the new tokens are computed, otherwise the whole
  // text. A text that has outgrown the model's positions goes on with its later half.
  absl::StatusOr<torch::Tensor> Append(const std::vector<int64_t>& tokens);

  // Bytes kept of the positions so far, all units together: the key-value cache.
  uint64_t kept_bytes() const { return kept_bytes_; }
  const SwapPlan& plan() const { return manager_->plan(); }
  SwapStats stats() const { return manager_->stats(); }

 private:
  Generator(const Model& model, const GeneratorOptions& options)
      : model_(model), options_(options) {}
  absl::Status Describe();
  int64_t LongestInput() const;
  // Computing's memory at its peak, on zeros.
  absl::StatusOr<uint64_t> MeasurePeakBytes();
  absl::Status PlanAndOpen(uint64_t compute_bytes);
  absl::Status Load(WeightSource* weights);
  absl::StatusOr<torch::Tensor> Compute(const std::vector<int64_t>& tokens, int64_t first);
  torch::Tensor RunUnit(int unit, const std::vector<torch::Tensor>& parameters,
                        const torch::Tensor& x, const TextPosition& at) const;
  int last_unit() const { return static_cast<int>(description_.units.size()) - 1; }

  const Model& model_;
  const GeneratorOptions options_;
  ModelDescription description_;
  bool continues_ = true;       // every unit has a ForwardNext
  int64_t text_positions_ = 0;  // of the window, as much of it as will be used
  uint64_t kept_bytes_ = 0;
  std::unique_ptr<MemoryBudget> host_budget_, device_budget_;
  std::unique_ptr<Arena> host_arena_, device_arena_;
  std::unique_ptr<SwapStore> store_;
  std::unique_ptr<SwapManager> manager_;
  std::vector<torch::Tensor> kept_;  // [unit]

  std::vector<int64_t> text_;  // what the model sees
  int64_t computed_ = 0;       // positions of `text_` that are in kept_
  int64_t appended_ = 0;
  bool enqueued_ = false;  // the next token's fetches have begun
};

}  // namespace spillway
