// The micro-batches that are computed together: of a training step, of a part of an evaluation, or
// beginnings of texts. They are read from their dataset and brought to where they are computed.
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

// An input among those of all micro-batches in the swap engine's memory.
struct MovedInput {
  uint64_t offset_bytes = 0;
  std::vector<int64_t> sizes, strides;
  torch::ScalarType type = torch::kFloat;
};

// What one micro-batch carries through a step.
struct MicroBatch {
  std::vector<int64_t> samples;  // numbers within the global batch
  Batch batch;
  int64_t labels = 0;  // that count
  // [unit]: its input, the activation checkpoint; or its graph, which has it
  std::vector<torch::Tensor> inputs;
  std::vector<std::optional<UnitGraph>> graphs;
  std::vector<MovedInput> moved;  // [unit]: its input, where it left the device
  // [unit]: its buffers before its forward, until its backward has computed that again
  std::vector<std::vector<torch::Tensor>> buffers;
  KeptValues values;       // what units behind the next one read
  torch::Tensor gradient;  // of the output of the unit whose backward is next
  // Of beginnings of texts, in place of labels: the last position of each [rows] int64, and what
  // came out.
  torch::Tensor last_positions, logits;

  // Gives `unit` its input: a field of the batch, or what the unit before it made.
  void Give(int unit, const ValueFlow& flow, const torch::Tensor& output) {
    const std::string& field = flow.input(unit);
    inputs[unit] = field.empty() ? output : batch.field(field);
  }

  // Moves the unit's input to `buffers.inputs`, behind those of the micro-batches before, as it
  // lies in memory. Throws where that has too little room.
  void MoveInput(int unit, const OpBuffers& buffers, const ComputePlace& place,
                 uint64_t* end_bytes);
  // Gives it to the unit again: what is in the host's memory as a view of `buffers.inputs`.
  void TakeInput(int unit, const OpBuffers& buffers, const ComputePlace& place);
};

// Compute thread. Every method that loads gives up what was there before, and fails with what the
// dataset says, or as Guarded does (engine/torch/guarded.h).
class StepBatches {
 public:
  // All outlive it. `evaluation` may be null.
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
  // That count in the loss of the step, or of the evaluation so far.
  int64_t labels() const { return labels_; }
  void SetLabels(int64_t labels) { labels_ = labels; }
  // Tokens that the model reads of them, without padding.
  int64_t tokens() const { return tokens_; }
  // A step or an evaluation begins: it has none yet.
  void ClearCounts() { labels_ = tokens_ = 0; }

  int64_t training_samples() const { return data_->size(); }

  // Loads this rank's micro-batches of step `step` (from 1), and lets the dataset prepare the next
  // step's.
  absl::Status LoadTraining(int64_t step);
  // Loads those of a later step beside what is there: LoadTraining takes them when it comes. What
  // it returns is there until the next call.
  absl::StatusOr<const std::vector<MicroBatch>*> LoadAhead(int64_t step);
  // Loads samples [first, first + count) of the evaluation, as far as there are so many, and adds
  // their labels to those before.
  absl::Status LoadEvaluation(int64_t first, int64_t count);
  // Loads beginnings of texts, which have no labels, as `maker` puts them into batches.
  absl::Status LoadBeginnings(absl::Span<const TextBeginning> texts, TextBatches& maker);
  // Loads the first micro-batch of step 1 alone, as large as the dataset's largest: all of a step
  // may be more than memory holds.
  absl::Status LoadLargest();

 private:
  struct Loaded {
    std::vector<MicroBatch> micro_batches;
    int64_t labels = 0;
    int64_t tokens = 0;
  };
  // Numbers, in the dataset, of this rank's samples of a step: the rank-th equal run of its global
  // batch.
  std::vector<int64_t> SamplesOf(int64_t step) const;
  absl::StatusOr<Loaded> Step(int64_t step) const;
  // `batch_of` gives the samples [begin, end) of all. `first_sample`: number of the first in the
  // global batch.
  template <typename BatchOf>
  absl::StatusOr<Loaded> Load(int64_t count, int64_t first_sample, BatchOf batch_of) const;
  // Brings a batch to where it is computed. kInvalidArgument where it is none of the samples of
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
  Loaded ahead_;  // of step ahead_step_, to be begun later; 0: of none
  int64_t ahead_step_ = 0;
};

}  // namespace spillway
