// A model that continues texts token by token, layer by layer under the same budgets.
//
// Several texts are continued together, each in a row: a unit's weights are loaded once for a token
// of each. Rows are computed one after another, each at its own position and with its own cache, so
// that no row's bits depend on the other rows.
//
// For a model with an encoder this computes the decoder: the encoder's output for a text's source
// is computed elsewhere (engine/torch/forward_pass.h) and passed with the text.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/generation/generator_options.h"
#include "engine/generation/kept_positions.h"
#include "engine/generation/text_memory.h"
#include "engine/generation/text_units.h"
#include "engine/torch/model.h"
#include "engine/weights/weight_source.h"

namespace spillway {

// The tokens appended to the text of a row.
struct RowTokens {
  int row = 0;
  std::vector<int64_t> tokens;
};

// Compute thread only. One at a time: LibTorch's memory counts against the newest one's budget.
class Generator {
 public:
  // Loads `weights`, streamed. If memory is too small for all, tensors of files in the options'
  // dtype are read in place whenever they are needed; the others are stored below the swap paths.
  // REQUIRES: the model's loss unit has Logits. `model` outlives the object. kInvalidArgument for a
  // prompt longer than the model's positions; an error of exit code 3, with the smallest sufficient
  // budgets, if it does not fit.
  static absl::StatusOr<std::unique_ptr<Generator>> Create(const Model& model,
                                                           WeightSource* weights,
                                                           const GeneratorOptions& options);
  // Appends to the texts of some rows, each at most once; returns the logits [classes], fp32, after
  // each, in that order. `more`: another call follows, whose weights are prefetched.
  //
  // If every unit has a ForwardNext, only the new tokens are computed, otherwise the whole text. A
  // text longer than the model's positions continues with its later half.
  absl::StatusOr<std::vector<torch::Tensor>> Append(const std::vector<RowTokens>& rows, bool more);
  // Appends to the first row alone, at most as often as the options said.
  absl::StatusOr<torch::Tensor> Append(const std::vector<int64_t>& tokens);
  // Begins another text in the row. `source`: [1, n, source_width], if the model has an encoder, in
  // the run's dtype and host memory.
  void Restart(int row, const torch::Tensor& source = {});

  // Copies the text of row `from` and its cache to row `to`; the cache of the source is not copied
  // again if `to` was forked from the same text before.
  absl::Status Fork(int from, int to);

  // Memory of the key-value caches of all units and rows.
  uint64_t kept_bytes() const { return kept_shape_.bytes(); }
  // Tier of the caches: the device if it has room for them beside the minimum for weights, else
  // host memory, else the swap paths.
  Tier kept_tier() const { return kept() ? kept()->tier() : Tier::kDevice; }
  const SwapPlan& plan() const { return memory_->manager().plan(); }
  // Counters of weights, in any tier, and of caches in files.
  SwapStats stats() const { return memory_->manager().stats(); }
  IoStats kept_io() const { return kept() ? kept()->io_stats() : IoStats(); }

 private:
  Generator(TextUnits units, const GeneratorOptions& options)
      : options_(options), units_(std::move(units)) {}
  absl::Status Describe();
  int64_t LongestInput() const;
  // Peak memory of the computation, measured on zeros.
  absl::StatusOr<uint64_t> MeasurePeakBytes();
  absl::StatusOr<std::vector<torch::Tensor>> Compute(std::vector<TextPiece> pieces, bool more);
  absl::Status ComputeUnit(int unit, const OpBuffers& buffers, std::vector<TextPiece>& pieces);
  KeptPositions* kept() const { return memory_->kept(); }  // null: no caches
  int64_t kept_positions() const { return options_.source_positions + text_positions_; }

  const GeneratorOptions options_;
  const TextUnits units_;
  int64_t text_positions_ = 0;  // positions of the window that will be used
  KeptShape kept_shape_;
  std::unique_ptr<TextMemory> memory_;

  struct Text {
    std::vector<int64_t> tokens;  // tokens that the model reads
    int64_t computed = 0;         // positions of `tokens` in the cache
    bool outgrown = false;        // the first tokens were dropped
    torch::Tensor source;
  };
  std::vector<Text> texts_;  // [row]
  int64_t asked_ = 0;        // tokens appended to the first row by the Append of a single row
  bool enqueued_ = false;    // the next token's fetches have begun
};

}  // namespace spillway
