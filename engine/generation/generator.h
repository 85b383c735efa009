// A model that continues texts token by token, layer by layer under the same budgets.
//
// Several texts go side by side, each a row: a unit's weights are brought once for a token of each.
// Rows are computed one after another, each as if it were alone, at its own position and with its
// own cache: no row's bits depend on which others there are.
//
// Of a model with an encoder this computes the rest: what the encoder makes of a text's source is
// computed elsewhere (engine/torch/forward_pass.h) and given with the text.
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

// What is added to the text of a row.
struct RowTokens {
  int row = 0;
  std::vector<int64_t> tokens;
};

// Compute thread only. One at a time: LibTorch's memory counts against the newest one's budget.
class Generator {
 public:
  // Loads `weights`, streamed. Where they do not all fit memory those that are tensors of files in
  // the options' dtype are read where they lie, whenever they are needed; the others are put below
  // the swap paths. The model's loss unit must have Logits. `model` outlives it.
  // kInvalidArgument for a prompt longer than the model's positions; a status that ends in
  // exit code 3 when it does not fit the budgets, with the smallest that would do.
  static absl::StatusOr<std::unique_ptr<Generator>> Create(const Model& model,
                                                           WeightSource* weights,
                                                           const GeneratorOptions& options);
  // Adds to the texts of some rows, each at most once; the logits [classes], fp32, of the token
  // after each, in that order. `more`: another call follows, whose weights are brought meanwhile.
  //
  // Where every unit has a ForwardNext only the new tokens are computed, otherwise the whole
  // text. A text that has outgrown the model's positions goes on with its later half.
  absl::StatusOr<std::vector<torch::Tensor>> Append(const std::vector<RowTokens>& rows, bool more);
  // Of the first row alone, as often as the options said.
  absl::StatusOr<torch::Tensor> Append(const std::vector<int64_t>& tokens);
  // The row begins another text. `source`: [1, n, source_width], where the model has an encoder,
  // in the run's dtype and the host's memory.
  void Restart(int row, const torch::Tensor& source = {});

  // The text of another row so far becomes this one's, too: what is kept of it is copied, but for
  // that of the source where this row's text has been forked from the same one before.
  absl::Status Fork(int from, int to);

  // Bytes set aside for what is kept of positions, all units and rows: the key-value caches.
  uint64_t kept_bytes() const { return kept_shape_.bytes(); }
  // Where they live: in the device's memory where it has room for them beside the least that
  // weights need there, else in the host's, else below the swap paths.
  Tier kept_tier() const { return kept() ? kept()->tier() : Tier::kDevice; }
  const SwapPlan& plan() const { return memory_->manager().plan(); }
  // Of weights, wherever they lie; what caches in files have read and written comes on top.
  SwapStats stats() const { return memory_->manager().stats(); }
  IoStats kept_io() const { return kept() ? kept()->io_stats() : IoStats(); }

 private:
  Generator(TextUnits units, const GeneratorOptions& options)
      : options_(options), units_(std::move(units)) {}
  absl::Status Describe();
  int64_t LongestInput() const;
  // Computing's memory at its peak, on zeros.
  absl::StatusOr<uint64_t> MeasurePeakBytes();
  absl::StatusOr<std::vector<torch::Tensor>> Compute(std::vector<TextPiece> pieces, bool more);
  absl::Status ComputeUnit(int unit, const OpBuffers& buffers, std::vector<TextPiece>& pieces);
  KeptPositions* kept() const { return memory_->kept(); }  // null: nothing is kept
  int64_t kept_positions() const { return options_.source_positions + text_positions_; }

  const GeneratorOptions options_;
  const TextUnits units_;
  int64_t text_positions_ = 0;  // of the window, as much of it as will be used
  KeptShape kept_shape_;
  std::unique_ptr<TextMemory> memory_;

  struct Text {
    std::vector<int64_t> tokens;  // what the model sees
    int64_t computed = 0;         // positions of those that are kept
    bool outgrown = false;        // its first tokens are gone
    torch::Tensor source;
  };
  std::vector<Text> texts_;  // [row]
  int64_t asked_ = 0;        // tokens of the first row so far, by the Append of one alone
  bool enqueued_ = false;    // the next token's fetches have begun
};

}  // namespace spillway
