// The micro-batches that are computed together: of a training step, of a part of an evaluation, or
// beginnings of texts. They are read from their dataset and copied to the compute place.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/options/train_options.h"
#include "engine/torch/compute_place.h"
#include "engine/torch/model.h"
#include "engine/torch/text_maker.h"
#include "engine/torch/unit_graph.h"
#include "engine/torch/value_flow.h"
#include "swap/mover/swap_manager.h"

namespace spillway {

// The place of an input in the swap engine's memory, which has those of all micro-batches.
struct MovedInput {
  uint64_t offset_bytes = 0;
  std::vector<int64_t> sizes, strides;
  torch::ScalarType type = torch::kFloat;
};

// The state of one micro-batch during a step.
struct MicroBatch {
  std::vector<int64_t> samples;  // numbers within the global batch
  Batch batch;
  int64_t labels = 0;  // those that count
  // [unit]: its input, the activation checkpoint; or its graph, which contains it.
  std::vector<torch::Tensor> inputs;
  std::vector<std::optional<UnitGraph>> graphs;
  std::vector<MovedInput> moved;  // [unit]: its input, if it was moved from the device
  // [unit]: its buffers before its forward, until its backward has recomputed it.
  std::vector<std::vector<torch::Tensor>> buffers;
  KeptValues values;       // read by units after the next one
  torch::Tensor gradient;  // of the output of the unit whose backward is next
  // For beginnings of texts, instead of labels: the last position of each [rows] int64, and the
  // resulting logits.
  torch::Tensor last_positions, logits;

  // Sets the input of `unit`: a field of the batch, or the previous unit's output.
  void Give(int unit, const ValueFlow& flow, const torch::Tensor& output) {
    const std::string& field = flow.input(unit);
    inputs[unit] = field.empty() ? output : batch.field(field);
  }

  // Moves the unit's input to `buffers.inputs`, after those of earlier micro-batches, with its
  // memory layout. Throws if there is too little room.
  void MoveInput(int unit, const OpBuffers& buffers, const ComputePlace& place,
                 uint64_t* end_bytes);
  // Restores the unit's input: in host memory as a view of `buffers.inputs`.
  void TakeInput(int unit, const OpBuffers& buffers, const ComputePlace& place);
};

// Compute thread. Every method that loads discards the previous content, and returns the dataset's
// errors, or those of Guarded (engine/torch/guarded.h).
class StepBatches {
 public:
  // All outlive the object. `evaluation` may be null.
  StepBatches(const ValueFlow& flow, int num_units, Dataset* data, Dataset* evaluation,
              const TrainOptions& options, const ComputePlace& place)
      : flow_(flow),
        num_units_(num_units),
        data_(data),
        evaluation_(evaluation),
        options_(options),
        place_(place) {}

  std::vector<MicroBatch>& all() { return now_.micro_batches; }
  void Clear() { now_ = {}; }
  // Labels that count in the loss of the step, or of the evaluation so far.
  int64_t labels() const { return labels_; }
  void SetLabels(int64_t labels) { labels_ = labels; }
  // Tokens that the model reads, without padding.
  int64_t tokens() const { return tokens_; }
  // Resets the counts when a step or an evaluation begins.
  void ClearCounts() { labels_ = tokens_ = 0; }

  int64_t training_samples() const { return data_->size(); }

  // Loads this rank's micro-batches of step `step` (from 1), and lets the dataset prepare those of
  // the next step.
  absl::Status LoadTraining(int64_t step);
  // Loads those of a later step without discarding the current ones, for the step's LoadTraining.
  // The result is valid until the next call.
  absl::StatusOr<const std::vector<MicroBatch>*> LoadAhead(int64_t step);
  // Loads samples [first, first + count) of the evaluation, as far as they exist, and adds their
  // labels to the count.
  absl::Status LoadEvaluation(int64_t first, int64_t count);
  // Loads beginnings of texts, which have no labels, in batches made by `maker`.
  absl::Status LoadBeginnings(absl::Span<const TextBeginning> texts, TextBatches& maker);
  // Loads only the first micro-batch of step 1, as large as the dataset's largest: memory may be
  // too small for a whole step.
  absl::Status LoadLargest();

 private:
  struct Loaded {
    std::vector<MicroBatch> micro_batches;
    int64_t labels = 0;
    int64_t tokens = 0;
  };
  // Numbers, in the dataset, of this rank's samples of a step: the rank-th equal part of its global
  // batch.
  std::vector<int64_t> SamplesOf(int64_t step) const;
  absl::StatusOr<Loaded> Step(int64_t step) const;
  // `batch_of` returns samples [begin, end). `first_sample`: number of the first one in the global
  // batch.
  template <typename BatchOf>
  absl::StatusOr<Loaded> Load(int64_t count, int64_t first_sample, BatchOf batch_of) const;
  // Copies a batch to the compute place. kInvalidArgument if it does not have the samples of
  // `micro`.
  absl::Status Put(Batch batch, MicroBatch& micro) const;

  const ValueFlow& flow_;
  const int num_units_;
  Dataset* const data_;
  Dataset* const evaluation_;
  const TrainOptions& options_;
  const ComputePlace& place_;

  Loaded now_;
  int64_t labels_ = 0;
  int64_t tokens_ = 0;
  Loaded ahead_;  // of step ahead_step_; 0: none
  int64_t ahead_step_ = 0;
};

}  // namespace spillway
